SELECT 
  COUNT_BIG(*),
  COUNT_BIG(*) - COUNT_BIG([c 3]]]),
  COUNT_BIG(DISTINCT [c 3]]]),
  COUNT_BIG(DISTINCT CAST(CAST([c 21]]] AS nvarchar(max)) AS varbinary(max)))
 FROM [rep].[or]]ders] AS dpone_source
