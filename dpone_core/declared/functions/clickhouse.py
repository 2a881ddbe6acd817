"""What ClickHouse itself brings and what only reads. Names are told apart by case unless they stand in `ANY_CASE`.

Not here: functions that ask a dictionary, a model, a file or another system, wait, or throw. A dictionary may run a
program or call a server, as its definition says; `dictGet` in a view is the way. A test asks the engine. Contract:
HOOK-30.
"""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import words

ANY_CASE: Final = words(
    """
    abs acos adddate age analysisofvariance anova any_value any_value_respect_nulls approx_top_count
    approx_top_k approx_top_sum array_agg array_concat_agg array_remove array_to_string arraypartialshuffle
    arrayshuffle ascii asin atan atan2 avg avg2 bin bit_and bit_or bit_xor byteslice byteswap cardinality cast
    ceil ceiling char char_length character_length chdb coalesce columns concat concat_ws corr cos count
    countsubstrings covar_pop covar_samp crc32 crc32ieee crc64 curdate current_database current_date
    current_query_id current_schemas current_timestamp current_user currentschemas database date date_bin
    date_format date_trunc datediff datename day dayofmonth dayofweek dayofyear degrees dense_rank
    distancecosine distancecosinetransposed distancel1 distancel2 distancel2squared distancel2transposed
    distancelinf distancelp exists exp extract factorial first_value first_value_respect_nulls firstnondefault
    flatten floor format_bytes fqdn from_base64 from_days from_unixtime from_utc_timestamp greatest group_concat
    hassubsequence hassubsequencecaseinsensitive hassubsequencecaseinsensitiveutf8 hassubsequenceutf8
    hastokencaseinsensitive hastokencaseinsensitiveornull hex hmac hour hypot if ifnull inet6_aton inet6_ntoa
    inet_aton inet_ntoa initcap initial_query_id initial_query_start_time instr interval
    ismergetreepartcoveredby isnull json_array_length kolmogorovsmirnovtest lag last_day last_value
    last_value_respect_nulls lcase lead least left length ln localtime localtimestamp locate log log10 log2
    lower lpad makedate makedate32 makedatetime makedatetime64 max max2 max_by mergetreepartinfo microsecond mid
    midpoint millisecond min min2 min_by minute mod modornull month monthname nanosecond natural_sort_key
    normalizel1 normalizel2 normalizelinf normalizelp norml1 norml2 norml2squared normlinf normlp not now now64
    nth_value ntile nullif octet_length overlay percent_rank pi pmod pmodornull position positive_modulo
    positive_modulo_or_null positivemodulo positivemoduloornull pow power quarter query_id radians rand rank
    regexp_extract regexp_instr regexp_matches regexp_replace regexp_substr regexpinstr regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse revision
    right round row_number rpad scalarproduct scalarproducttransposed schema second session_user sign sin
    soundex space sqr sqrt std stddev stddev_pop stddev_samp str_to_date str_to_map string_agg subdate substr
    substring substring_index sum tan tanh time_bucket timediff timestamp timezone to_base64 to_days to_unixtime
    to_utc_timestamp today todecimalstring trim trunc truncate ucase unbin unhex unnest upper user utc_timestamp
    utctimestamp var_pop var_samp vectordifference vectorsum version week width_bucket year yearweek
    yyyymmddhhmmsstodatetime yyyymmddtodate yyyymmddtodate32
    """
)

_SCALARS: Final = words(
    """
    accurateCast accurateCastOrDefault accurateCastOrNull acosh addDays addHours addInterval addMicroseconds
    addMilliseconds addMinutes addMonths addNanoseconds addQuarters addSeconds addTupleOfIntervals addWeeks
    addYears aes_decrypt_mysql aes_encrypt_mysql alphaTokens and appendTrailingCharIfAbsent areaCartesian
    areaSpherical array arrayAll arrayAUC arrayAUCPR arrayAutocorrelation arrayAvg arrayBottomK arrayCompact
    arrayConcat arrayCount arrayCumSum arrayCumSumNonNegative arrayDifference arrayDistinct arrayDotProduct
    arrayElement arrayElementOrNull arrayEnumerate arrayEnumerateDense arrayEnumerateDenseRanked
    arrayEnumerateUniq arrayEnumerateUniqRanked arrayExcept arrayExists arrayFill arrayFilter arrayFirst
    arrayFirstIndex arrayFirstOrNull arrayFlatten arrayFlattenedLength arrayFold arrayIntersect
    arrayJaccardIndex arrayJoin arrayLast arrayLastIndex arrayLastOrNull arrayLevenshteinDistance
    arrayLevenshteinDistanceWeighted arrayMap arrayMax arrayMin arrayNormalizedGini arrayPartialReverseSort
    arrayPartialSort arrayPopBack arrayPopFront arrayPRAUC arrayProduct arrayPushBack arrayPushFront
    arrayRandomSample arrayReduce arrayReduceInRanges arrayRemove arrayResize arrayReverse arrayReverseFill
    arrayReverseSort arrayReverseSplit arrayROCAUC arrayRotateLeft arrayRotateRight arrayShiftLeft
    arrayShiftRight arrayShingles arraySimilarity arraySlice arraySort arraySplit arrayStringConcat arraySum
    arraySymmetricDifference arrayTopK arrayTranspose arrayUnion arrayUniq arrayWithConstant arrayZip
    arrayZipUnaligned asinh assignCentroid assumeNotNull atanh authUser bar base32Decode base32Encode
    base58Decode base58Encode base64Decode base64Encode base64URLDecode base64URLEncode basename bitAnd bitCount
    bitHammingDistance bitmapAnd bitmapAndCardinality bitmapAndnot bitmapAndnotCardinality bitmapBuild
    bitmapCardinality bitmapContains bitmapHasAll bitmapHasAny bitmapMax bitmapMin bitmapOr bitmapOrCardinality
    bitmapSubsetInRange bitmapSubsetLimit bitmapToArray bitmapTransform bitmapXor bitmapXorCardinality
    bitmaskToArray bitmaskToList bitNot bitOr bitPositionsToArray bitRotateLeft bitRotateRight bitShiftLeft
    bitShiftRight bitSlice bitTest bitTestAll bitTestAny bitXor blockNumber blockSize byteHammingDistance
    byteSize caseFoldUTF8 caseWithExpr caseWithExpression caseWithoutExpr caseWithoutExpression cbrt changeDay
    changeHour changeMinute changeMonth changeSecond changeYear cityHash64 clamp colorOKLABToSRGB
    colorOKLCHToSRGB colorSRGBToOKLAB colorSRGBToOKLCH compareSubstrings concatAssumeInjective
    concatWithSeparator concatWithSeparatorAssumeInjective conv convertCharset cosh cosineDistance
    cosineDistanceTransposed cosineDistanceTransposedQuantized countDigits countEqual countMatches
    countMatchesCaseInsensitive countSubstringsCaseInsensitive countSubstringsCaseInsensitiveUTF8
    currentDatabase currentHandler currentQueryID currentUser cutFragment cutIPv6 cutQueryString
    cutQueryStringAndFragment cutToFirstSignificantSubdomain cutToFirstSignificantSubdomainCustom
    cutToFirstSignificantSubdomainCustomRFC cutToFirstSignificantSubdomainCustomWithWWW
    cutToFirstSignificantSubdomainCustomWithWWWRFC cutToFirstSignificantSubdomainRFC
    cutToFirstSignificantSubdomainWithWWW cutToFirstSignificantSubdomainWithWWWRFC cutURLParameter cutWWW
    damerauLevenshteinDistance DATE_DIFF date_diff dateTime64ToSnowflakeID dateTimeToSnowflakeID
    dateTimeToUUIDv7 dateTrunc decodeHTMLComponent decodeURLComponent decodeURLFormComponent decodeXMLComponent
    decrypt defaultValueOfArgumentType defaultValueOfTypeName dequantizeInt8ToBFloat16 digits divide
    divideDecimal divideOrNull domain domainRFC domainWithoutWWW domainWithoutWWWRFC dotProduct
    dotProductTransposed dotProductTransposedQuantized dynamicElement dynamicType e editDistance
    editDistanceUTF8 empty emptyArrayDate emptyArrayDateTime emptyArrayFloat32 emptyArrayFloat64 emptyArrayInt16
    emptyArrayInt32 emptyArrayInt64 emptyArrayInt8 emptyArrayString emptyArrayToSingle emptyArrayUInt16
    emptyArrayUInt32 emptyArrayUInt64 emptyArrayUInt8 encodeURLComponent encodeURLFormComponent
    encodeXMLComponent encrypt endsWith endsWithCaseInsensitive endsWithCaseInsensitiveUTF8 endsWithUTF8 equals
    erf erfc errorCodeToName exp10 exp2 extract extractAll extractAllGroups extractAllGroupsHorizontal
    extractAllGroupsVertical extractGroups extractKeyValuePairs extractKeyValuePairsWithEscaping
    extractTextFromHTML extractURLParameter extractURLParameterNames extractURLParameters farmFingerprint64
    farmHash64 finalizeAggregation financialInternalRateOfReturn financialInternalRateOfReturnExtended
    financialNetPresentValue financialNetPresentValueExtended firstLine firstSignificantSubdomain
    firstSignificantSubdomainCustom firstSignificantSubdomainCustomRFC firstSignificantSubdomainRFC flattenTuple
    flipCoordinates format formatDateTime formatDateTimeInJodaSyntax formatQuery formatQueryFromJSON
    formatQueryOrNull formatQuerySingleLine formatQuerySingleLineOrNull formatReadableDecimalSize
    formatReadableQuantity formatReadableSize formatReadableTimeDelta formatRow formatRowNoNewline fragment
    fromDaysSinceYearZero fromDaysSinceYearZero32 fromModifiedJulianDay fromModifiedJulianDayOrNull
    fromUnixTimestamp fromUnixTimestamp64Micro fromUnixTimestamp64Milli fromUnixTimestamp64Nano
    fromUnixTimestamp64Second fromUnixTimestampInJodaSyntax fromUTCTimestamp fullHostName gccMurmurHash gcd
    generateUUIDv4 generateUUIDv7 geoDistance geohashDecode geohashEncode geohashesInBox
    geometryIntersectCartesian geometryIntersectSpherical geoToH3 geoToMGRS geoToUTM getMacro
    getMaxTableNameLengthForDatabase getSetting getSettingOrDefault getSizeOfEnumType getSubcolumn globalIn
    globalInIgnoreSet globalNotIn globalNotInIgnoreSet globalNotNullIn globalNotNullInIgnoreSet globalNullIn
    globalNullInIgnoreSet globalVariable greatCircleAngle greatCircleDistance greater greaterOrEquals
    h3CellAreaM2 h3CellAreaRads2 h3Distance h3EdgeAngle h3EdgeLengthKm h3EdgeLengthM h3ExactEdgeLengthKm
    h3ExactEdgeLengthM h3ExactEdgeLengthRads h3GetBaseCell h3GetDestinationIndexFromUnidirectionalEdge
    h3GetFaces h3GetIndexesFromUnidirectionalEdge h3GetOriginIndexFromUnidirectionalEdge h3GetPentagonIndexes
    h3GetRes0Indexes h3GetResolution h3GetUnidirectionalEdge h3GetUnidirectionalEdgeBoundary
    h3GetUnidirectionalEdgesFromHexagon h3HexAreaKm2 h3HexAreaM2 h3HexRing h3IndexesAreNeighbors h3IsPentagon
    h3IsResClassIII h3IsValid h3kRing h3Line h3NumHexagons h3PointDistKm h3PointDistM h3PointDistRads
    h3PolygonToCells h3PolygonToCellsWithContainment h3ToCenterChild h3ToChildren h3ToGeo h3ToGeoBoundary
    h3ToParent h3ToString h3UnidirectionalEdgeIsValid halfMD5 has hasAll hasAllToken hasAllTokens hasAny
    hasAnyToken hasAnyTokens hasColumnInTable hasPhrase hasSubstr hasThreadFuzzer hasToken hasTokenOrNull
    highlight highlightQuery hilbertDecode hilbertEncode hiveHash hop hopEnd hopStart hostname hostName identity
    ifNotFinite ignore ilike in indexHint indexOf indexOfAssumeSorted inIgnoreSet initcapUTF8 initialQueryID
    initialQueryStartTime intDiv intDivOrNull intDivOrZero intExp10 intExp2 intHash32 intHash64 IPv4CIDRToRange
    IPv4NumToString IPv4NumToStringClassC IPv4StringToNum IPv4StringToNumOrDefault IPv4StringToNumOrNull
    IPv4ToIPv6 IPv6CIDRToRange IPv6NumToString IPv6StringToNum IPv6StringToNumOrDefault IPv6StringToNumOrNull
    isASCII isConstant isDecimalOverflow isDistinctFrom isDynamicElementInSharedData isFinite isInfinite
    isIPAddressInRange isIPv4String isIPv6String isNaN isNotDistinctFrom isNotNull isNullable isPrime
    isProbablePrime isValidASCII isValidJSON isValidUTF8 isZeroOrNull jaroSimilarity jaroWinklerSimilarity
    javaHash javaHashUTF16LE JSON_EXISTS JSON_QUERY JSON_VALUE JSONAllPaths JSONAllPathsWithTypes JSONAllValues
    JSONArrayLength JSONDynamicPaths JSONDynamicPathsWithTypes JSONExtract JSONExtractArrayRaw
    JSONExtractArrayRawCaseInsensitive JSONExtractBool JSONExtractBoolCaseInsensitive JSONExtractCaseInsensitive
    JSONExtractFloat JSONExtractFloatCaseInsensitive JSONExtractInt JSONExtractIntCaseInsensitive
    JSONExtractKeys JSONExtractKeysAndValues JSONExtractKeysAndValuesCaseInsensitive JSONExtractKeysAndValuesRaw
    JSONExtractKeysAndValuesRawCaseInsensitive JSONExtractKeysCaseInsensitive JSONExtractRaw
    JSONExtractRawCaseInsensitive JSONExtractString JSONExtractStringCaseInsensitive JSONExtractUInt
    JSONExtractUIntCaseInsensitive JSONHas JSONKey JSONLength JSONMergePatch jsonMergePatch JSONSharedDataPaths
    JSONSharedDataPathsWithTypes JSONType jumpConsistentHash kafkaMurmurHash keccak256 kostikConsistentHash
    kqlBin kqlBinAt kqlDateTimeBinAt kqlDivide kqlMultiply kqlParameterCast kqlRangeCount kqlToTimespan
    L1Distance L1Norm L1Normalize L2Distance L2DistanceTransposed L2DistanceTransposedQuantized L2Norm
    L2Normalize L2SquaredDistance L2SquaredNorm lcm leftPad leftPadUTF8 leftUTF8 lengthUTF8 less lessOrEquals
    levenshteinDistance levenshteinDistanceUTF8 lgamma like LinfDistance LinfNorm LinfNormalize log1p
    lowCardinalityIndices lowCardinalityKeys lowerUTF8 LpDistance LpNorm LpNormalize ltrim MACNumToString
    MACStringToNum MACStringToOUI map MAP_FROM_ARRAYS mapAdd mapAll mapApply mapConcat mapContains
    mapContainsKey mapContainsKeyLike mapContainsValue mapContainsValueLike mapExists mapExtractKeyLike
    mapExtractValueLike mapFilter mapFromArrays mapFromString mapKeys mapPartialReverseSort mapPartialSort
    mapPopulateSeries mapReverseSort mapSort mapSubtract mapUpdate mapValues match matchCaseInsensitive
    matchPhrase materialize MD4 MD5 metroHash64 MGRSToGeo minSampleSizeContinous minSampleSizeContinuous
    minSampleSizeConversion minus mismatches modulo moduloLegacy moduloOrNull moduloOrZero mortonDecode
    mortonEncode multiFuzzyMatchAllIndices multiFuzzyMatchAny multiFuzzyMatchAnyIndex multiIf
    multiMatchAllIndices multiMatchAny multiMatchAnyIndex multiply multiplyDecimal multiSearchAllPositions
    multiSearchAllPositionsCaseInsensitive multiSearchAllPositionsCaseInsensitiveUTF8
    multiSearchAllPositionsUTF8 multiSearchAny multiSearchAnyCaseInsensitive multiSearchAnyCaseInsensitiveUTF8
    multiSearchAnyUTF8 multiSearchFirstIndex multiSearchFirstIndexCaseInsensitive
    multiSearchFirstIndexCaseInsensitiveUTF8 multiSearchFirstIndexUTF8 multiSearchFirstPosition
    multiSearchFirstPositionCaseInsensitive multiSearchFirstPositionCaseInsensitiveUTF8
    multiSearchFirstPositionUTF8 murmurHash2_32 murmurHash2_64 murmurHash3_128 murmurHash3_32 murmurHash3_64
    MVTBoundingBox MVTBoundingBoxMercator MVTEncodeGeom naturalSortKey negate neighbor nested netloc
    ngramDistance ngramDistanceCaseInsensitive ngramDistanceCaseInsensitiveUTF8 ngramDistanceUTF8 ngramMinHash
    ngramMinHashArg ngramMinHashArgCaseInsensitive ngramMinHashArgCaseInsensitiveUTF8 ngramMinHashArgUTF8
    ngramMinHashCaseInsensitive ngramMinHashCaseInsensitiveUTF8 ngramMinHashUTF8 ngrams ngramSearch
    ngramSearchCaseInsensitive ngramSearchCaseInsensitiveUTF8 ngramSearchUTF8 ngramSimHash
    ngramSimHashCaseInsensitive ngramSimHashCaseInsensitiveUTF8 ngramSimHashUTF8 normalizedQueryHash
    normalizedQueryHashKeepNames normalizeQuery normalizeQueryKeepNames normalizeUTF8NFC normalizeUTF8NFD
    normalizeUTF8NFKC normalizeUTF8NFKCCasefold normalizeUTF8NFKD notEmpty notEquals notHas notILike notIn
    notInIgnoreSet notLike notMatch notMatchCaseInsensitive notNullIn notNullInIgnoreSet nowInBlock nowInBlock64
    nullIn nullInIgnoreSet numericIndexedVectorAllValueSum numericIndexedVectorBuild
    numericIndexedVectorCardinality numericIndexedVectorGetValue numericIndexedVectorPointwiseAdd
    numericIndexedVectorPointwiseDivide numericIndexedVectorPointwiseEqual numericIndexedVectorPointwiseGreater
    numericIndexedVectorPointwiseGreaterEqual numericIndexedVectorPointwiseLess
    numericIndexedVectorPointwiseLessEqual numericIndexedVectorPointwiseMultiply
    numericIndexedVectorPointwiseNotEqual numericIndexedVectorPointwiseSubtract
    numericIndexedVectorShortDebugString numericIndexedVectorToMap or overlayUTF8 parseDateTime
    parseDateTime32BestEffort parseDateTime32BestEffortOrNull parseDateTime32BestEffortOrZero parseDateTime64
    parseDateTime64BestEffort parseDateTime64BestEffortOrNull parseDateTime64BestEffortOrZero
    parseDateTime64BestEffortUS parseDateTime64BestEffortUSOrNull parseDateTime64BestEffortUSOrZero
    parseDateTime64InJodaSyntax parseDateTime64InJodaSyntaxOrNull parseDateTime64InJodaSyntaxOrZero
    parseDateTime64OrNull parseDateTime64OrZero parseDateTimeBestEffort parseDateTimeBestEffortOrNull
    parseDateTimeBestEffortOrZero parseDateTimeBestEffortUS parseDateTimeBestEffortUSOrNull
    parseDateTimeBestEffortUSOrZero parseDateTimeInJodaSyntax parseDateTimeInJodaSyntaxOrNull
    parseDateTimeInJodaSyntaxOrZero parseDateTimeOrNull parseDateTimeOrZero parseISO8601Duration
    parseQueryToJSON parseReadableSize parseReadableSizeOrNull parseReadableSizeOrZero parseTimeDelta
    partitionID path pathFull perimeterCartesian perimeterSpherical plus pointInEllipses pointInPolygon
    polygonAreaCartesian polygonAreaSpherical polygonConvexHullCartesian polygonPerimeterCartesian
    polygonPerimeterSpherical polygonsDistanceCartesian polygonsDistanceSpherical polygonsEqualsCartesian
    polygonsIntersectCartesian polygonsIntersectionCartesian polygonsIntersectionSpherical
    polygonsIntersectSpherical polygonsSymDifferenceCartesian polygonsSymDifferenceSpherical
    polygonsUnionCartesian polygonsUnionSpherical polygonsWithinCartesian polygonsWithinSpherical port portRFC
    positionCaseInsensitive positionCaseInsensitiveUTF8 positionUTF8 prettyPrintJSON printf proportionsZTest
    protocol quantizeBFloat16ToInt8 queryID queryString queryStringAndFragment rand32 rand64 randBernoulli
    randBinomial randCanonical randChiSquared randConstant randExponential randFisherF randLogNormal
    randNegativeBinomial randNormal randomFixedString randomPrintableASCII randomString randomStringUTF8
    randPoisson randStudentT randUniform range readWkb readWKB readWKBLineString readWKBMultiLineString
    readWKBMultiPoint readWKBMultiPolygon readWKBPoint readWKBPolygon readWKT readWkt readWKTLineString
    readWKTMultiLineString readWKTMultiPoint readWKTMultiPolygon readWKTPoint readWKTPolygon readWKTRing
    regexpExtract regexpPosition regexpQuoteMeta regionHierarchy regionIn regionToArea regionToCity
    regionToContinent regionToCountry regionToDistrict regionToName regionToPopulation regionToTopContinent
    reinterpret reinterpretAsDate reinterpretAsDateTime reinterpretAsFixedString reinterpretAsFloat32
    reinterpretAsFloat64 reinterpretAsInt128 reinterpretAsInt16 reinterpretAsInt256 reinterpretAsInt32
    reinterpretAsInt64 reinterpretAsInt8 reinterpretAsString reinterpretAsUInt128 reinterpretAsUInt16
    reinterpretAsUInt256 reinterpretAsUInt32 reinterpretAsUInt64 reinterpretAsUInt8 reinterpretAsUUID
    removeAccentsUTF8 removeDiacriticsUTF8 replaceAll replaceOne replaceRegexpAll replaceRegexpOne
    reverseBySeparator reverseUTF8 rightPad rightPadUTF8 rightUTF8 RIPEMD160 roundAge roundBankers roundDown
    roundDuration roundToExp2 rowNumberInAllBlocks rowNumberInBlock rtrim runningAccumulate runningDifference
    runningDifferenceStartingWithFirstValue seriesDecomposeSTL seriesOutliersDetectTukey serverTimeZone
    serverTimezone serverUUID SHA1 SHA224 SHA256 SHA384 SHA512 SHA512_256 shardCount shardNum sigmoid
    simpleJSONExtractBool simpleJSONExtractFloat simpleJSONExtractInt simpleJSONExtractRaw
    simpleJSONExtractString simpleJSONExtractUInt simpleJSONHas sinh sipHash128 sipHash128Keyed
    sipHash128Reference sipHash128ReferenceKeyed sipHash64 sipHash64Keyed snowflakeIDToDateTime
    snowflakeIDToDateTime64 sparseGrams sparseGramsHashes sparseGramsHashesUTF8 sparseGramsUTF8 splitByAlpha
    splitByChar splitByNonAlpha splitByRegexp splitByString splitByWhitespace sqid sqidDecode sqidEncode
    ST_AsMVTGeom ST_LineFromWKB ST_MLineFromWKB ST_MPointFromWKB ST_MPolyFromWKB ST_PointFromWKB ST_PolyFromWKB
    startsWith startsWithCaseInsensitive startsWithCaseInsensitiveUTF8 startsWithUTF8 stringBytesEntropy
    stringBytesUniq stringJaccardIndex stringJaccardIndexUTF8 stringToH3 subBitmap substringIndex
    substringIndexUTF8 substringUTF8 subtractDays subtractHours subtractInterval subtractMicroseconds
    subtractMilliseconds subtractMinutes subtractMonths subtractNanoseconds subtractQuarters subtractSeconds
    subtractTupleOfIntervals subtractWeeks subtractYears SVG svg tgamma tid timeSeriesCopyTag timeSeriesCopyTags
    timeSeriesExtractTag timeSeriesFromGrid timeSeriesGroupToSamplingKey timeSeriesGroupToTags
    timeSeriesIdToGroup timeSeriesIdToTags timeSeriesIdToTagsGroup timeSeriesJoinTags
    timeSeriesMetricTypeToSuffixes timeSeriesPrometheusValueToString timeSeriesRange
    timeSeriesRemoveAllTagsExcept timeSeriesRemoveTag timeSeriesRemoveTags timeSeriesReplaceTag
    timeSeriesTagsGroupToTags timeSeriesTagsToGroup timeSeriesTagsToMap timeSlot timeSlots timestamp_diff
    TIMESTAMP_DIFF timestampDiff timeZoneOf timezoneOf timeZoneOffset timezoneOffset toBFloat16 toBFloat16OrNull
    toBFloat16OrZero toBool toColumnTypeName toDate toDate32 toDate32OrDefault toDate32OrNull toDate32OrZero
    toDateOrDefault toDateOrNull toDateOrZero toDateTime toDateTime32 toDateTime64 toDateTime64OrDefault
    toDateTime64OrNull toDateTime64OrZero toDateTimeOrDefault toDateTimeOrNull toDateTimeOrZero toDayOfMonth
    toDayOfWeek toDayOfYear toDaysInMonth toDaysSinceYearZero toDecimal128 toDecimal128OrDefault
    toDecimal128OrNull toDecimal128OrZero toDecimal256 toDecimal256OrDefault toDecimal256OrNull
    toDecimal256OrZero toDecimal32 toDecimal32OrDefault toDecimal32OrNull toDecimal32OrZero toDecimal64
    toDecimal64OrDefault toDecimal64OrNull toDecimal64OrZero toFixedString toFloat32 toFloat32OrDefault
    toFloat32OrNull toFloat32OrZero toFloat64 toFloat64OrDefault toFloat64OrNull toFloat64OrZero toHour toInt128
    toInt128OrDefault toInt128OrNull toInt128OrZero toInt16 toInt16OrDefault toInt16OrNull toInt16OrZero
    toInt256 toInt256OrDefault toInt256OrNull toInt256OrZero toInt32 toInt32OrDefault toInt32OrNull
    toInt32OrZero toInt64 toInt64OrDefault toInt64OrNull toInt64OrZero toInt8 toInt8OrDefault toInt8OrNull
    toInt8OrZero toInterval toIntervalDay toIntervalHour toIntervalMicrosecond toIntervalMillisecond
    toIntervalMinute toIntervalMonth toIntervalNanosecond toIntervalQuarter toIntervalSecond toIntervalWeek
    toIntervalYear toIPv4 toIPv4OrDefault toIPv4OrNull toIPv4OrZero toIPv6 toIPv6OrDefault toIPv6OrNull
    toIPv6OrZero toISOWeek toISOYear toJSONString tokenizeQuery tokens tokensForLikePattern toLastDayOfMonth
    toLastDayOfWeek toLowCardinality toMicrosecond toMillisecond toMinute toModifiedJulianDay
    toModifiedJulianDayOrNull toMonday toMonth toMonthNumSinceEpoch toNanosecond toNullable topLevelDomain
    topLevelDomainRFC toQuarter toRelativeDayNum toRelativeHourNum toRelativeMinuteNum toRelativeMonthNum
    toRelativeQuarterNum toRelativeSecondNum toRelativeWeekNum toRelativeYearNum toSecond toStartOfDay
    toStartOfFifteenMinutes toStartOfFiveMinute toStartOfFiveMinutes toStartOfHour toStartOfInterval
    toStartOfISOYear toStartOfMicrosecond toStartOfMillisecond toStartOfMinute toStartOfMonth
    toStartOfNanosecond toStartOfQuarter toStartOfSecond toStartOfTenMinutes toStartOfWeek toStartOfYear
    toString toStringCutToZero toTime toTime64 toTime64OrNull toTime64OrZero toTimeOrNull toTimeOrZero
    toTimeWithFixedDate toTimezone toTimeZone toTypeName toUInt128 toUInt128OrDefault toUInt128OrNull
    toUInt128OrZero toUInt16 toUInt16OrDefault toUInt16OrNull toUInt16OrZero toUInt256 toUInt256OrDefault
    toUInt256OrNull toUInt256OrZero toUInt32 toUInt32OrDefault toUInt32OrNull toUInt32OrZero toUInt64
    toUInt64OrDefault toUInt64OrNull toUInt64OrZero toUInt8 toUInt8OrDefault toUInt8OrNull toUInt8OrZero
    toUnixTimestamp toUnixTimestamp64Micro toUnixTimestamp64Milli toUnixTimestamp64Nano toUnixTimestamp64Second
    toUTCTimestamp toUUID toUUIDOrDefault toUUIDOrNull toUUIDOrZero toValidUTF8 toWeek toYear
    toYearNumSinceEpoch toYearWeek toYYYYMM toYYYYMMDD toYYYYMMDDhhmmss transform translate translateUTF8 trim
    trimBoth trimLeft trimRight tryBase32Decode tryBase58Decode tryBase64Decode tryBase64URLDecode tryDecrypt
    tumble tumbleEnd tumbleStart tuple tupleConcat tupleDivide tupleDivideByNumber tupleElement
    tupleHammingDistance tupleIntDiv tupleIntDivByNumber tupleIntDivOrZero tupleIntDivOrZeroByNumber tupleMinus
    tupleModulo tupleModuloByNumber tupleMultiply tupleMultiplyByNumber tupleNames tupleNegate tuplePlus
    tuplePositiveModuloByNumber tupleToNameValuePairs upperUTF8 uptime URLHash URLHierarchy URLPathHierarchy
    UTMToGeo UUIDNumToString UUIDStringToNum UUIDToNum UUIDv7ToDateTime validateNestedArraySizes variantElement
    variantType visibleWidth visitParamExtractBool visitParamExtractFloat visitParamExtractInt
    visitParamExtractRaw visitParamExtractString visitParamExtractUInt visitParamHas widthBucket WKB wkb wkt WKT
    wordShingleMinHash wordShingleMinHashArg wordShingleMinHashArgCaseInsensitive
    wordShingleMinHashArgCaseInsensitiveUTF8 wordShingleMinHashArgUTF8 wordShingleMinHashCaseInsensitive
    wordShingleMinHashCaseInsensitiveUTF8 wordShingleMinHashUTF8 wordShingleSimHash
    wordShingleSimHashCaseInsensitive wordShingleSimHashCaseInsensitiveUTF8 wordShingleSimHashUTF8 wyHash64 xor
    xxh3 xxh3_128 xxHash32 xxHash64 xxHash64Spark yandexConsistentHash yesterday YYYYMMDDhhmmssToDateTime64
    """
)

_AGGREGATES: Final = words(
    """
    aggThrow any any_respect_nulls anyHeavy anyLast anyLast_respect_nulls anyLastRespectNulls anyRespectNulls
    anyValueRespectNulls argAndMax argAndMin argMax argMin avgWeighted boundingRatio categoricalInformationValue
    contingency corrMatrix corrStable covarPop covarPopMatrix covarPopStable covarSamp covarSampMatrix
    covarSampStable cramersV cramersVBiasCorrected cume_dist deltaSum deltaSumTimestamp denseRank
    distinctDynamicTypes distinctJSONPaths distinctJSONPathsAndTypes entropy estimateCompressionRatio
    exponentialMovingAverage exponentialTimeDecayedAvg exponentialTimeDecayedCount exponentialTimeDecayedMax
    exponentialTimeDecayedSum firstValueRespectNulls flameGraph gini groupArray groupArrayInsertAt
    groupArrayIntersect groupArrayLast groupArrayMovingAvg groupArrayMovingSum groupArraySample groupArraySorted
    groupBitAnd groupBitmap groupBitmapAnd groupBitmapOr groupBitmapXor groupBitOr groupBitXor groupConcat
    groupFormat groupNumericIndexedVector groupUniqArray hierarchicalKMeans histogram intervalLengthSum kurtPop
    kurtSamp lagInFrame largestTriangleThreeBuckets lastValueRespectNulls leadInFrame lttb mannWhitneyUTest
    maxIntersections maxIntersectionsPosition maxMappedArrays meanZTest median medianBFloat16
    medianBFloat16Weighted medianDD medianDeterministic medianExact medianExactHigh medianExactLow
    medianExactWeighted medianExactWeightedInterpolated medianGK medianInterpolatedWeighted medianTDigest
    medianTDigestWeighted medianTiming medianTimingWeighted mergedJSONPatch minMappedArrays MVTEncode
    nonNegativeDerivative percentRank quantile quantileBFloat16 quantileBFloat16Weighted quantileDD
    quantileDeterministic quantileExact quantileExactExclusive quantileExactHigh quantileExactInclusive
    quantileExactLow quantileExactWeighted quantileExactWeightedInterpolated quantileGK
    quantileInterpolatedWeighted quantilePrometheusHistogram quantiles quantilesBFloat16
    quantilesBFloat16Weighted quantilesDD quantilesDeterministic quantilesExact quantilesExactExclusive
    quantilesExactHigh quantilesExactInclusive quantilesExactLow quantilesExactWeighted
    quantilesExactWeightedInterpolated quantilesGK quantilesInterpolatedWeighted quantilesPrometheusHistogram
    quantilesTDigest quantilesTDigestWeighted quantilesTiming quantilesTimingWeighted quantileTDigest
    quantileTDigestWeighted quantileTiming quantileTimingWeighted rankCorr retention sequenceCount sequenceMatch
    sequenceMatchEvents sequenceNextNode simpleLinearRegression singleValueOrNull skewPop skewSamp sparkBar
    sparkbar ST_AsMVT stddevPop stddevPopStable stddevSamp stddevSampStable stochasticLinearRegression
    stochasticLogisticRegression studentTTest studentTTestOneSample sumCount sumKahan sumMapFiltered
    sumMapFilteredWithOverflow sumMappedArrays sumMapWithOverflow sumWithOverflow theilsU timeSeriesAvgToGrid
    timeSeriesBottomKMasks timeSeriesChangesToGrid timeSeriesCountToGrid timeSeriesDeltaToGrid
    timeSeriesDerivToGrid timeSeriesGroupArray timeSeriesIncreaseToGrid timeSeriesInstantDeltaToGrid
    timeSeriesInstantRateToGrid timeSeriesLastToGrid timeSeriesLastTwoSamples timeSeriesLimitKMasks
    timeSeriesMaxToGrid timeSeriesMinToGrid timeSeriesPredictLinearToGrid timeSeriesRateToGrid
    timeSeriesResampleToGridWithStaleness timeSeriesResetsToGrid timeSeriesSumToGrid
    timeSeriesTimestampOfMaxToGrid timeSeriesTimestampOfMinToGrid timeSeriesTopKMasks topK topKWeighted uniq
    uniqCombined uniqCombined64 uniqExact uniqHLL12 uniqUpTo varPop varPopStable varSamp varSampStable
    welchTTest windowFunnel
    """
)
"""Each also with combinators behind it, such as `sumIf`."""

_ANY_CASE_AGGREGATES: Final = words(
    """
    analysisofvariance anova any_value any_value_respect_nulls approx_top_count approx_top_k approx_top_sum
    array_agg array_concat_agg avg bit_and bit_or bit_xor corr count covar_pop covar_samp dense_rank first_value
    first_value_respect_nulls group_concat kolmogorovsmirnovtest lag last_value last_value_respect_nulls lead
    max max_by min min_by nth_value ntile percent_rank rank regr_avgx regr_avgy regr_count regr_intercept
    regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number std stddev stddev_pop stddev_samp string_agg sum
    var_pop var_samp
    """
)

COMBINATORS: Final = (
    "SimpleState",
    "OrDefault",
    "Distinct",
    "Resample",
    "ForEach",
    "ArgMax",
    "ArgMin",
    "OrNull",
    "Tuple",
    "Merge",
    "State",
    "Array",
    "Null",
    "Map",
    "If",
)
AS_SPELLED: Final = _SCALARS | _AGGREGATES
AGGREGATES: Final = _AGGREGATES | _ANY_CASE_AGGREGATES

TABLE_FUNCTIONS: Final = words(
    """
    cluster clusterAllReplicas generateSeries generate_series merge null numbers numbers_mt primes values view
    viewIfPermitted zeros zeros_mt
    """
)
