SELECT 
  MAX(DATALENGTH(CAST([c 22]]] AS nvarchar(max))) / 2),
  MAX(DATALENGTH(CAST([c 24]]] AS nvarchar(max))) / 2),
  MAX(DATALENGTH(CAST([c 26]]] AS nvarchar(max))) / 2),
  MAX(DATALENGTH(CAST([c 29]]] AS varbinary(max)))),
  MAX(DATALENGTH(CAST([c 30]]] AS varbinary(max))))
 FROM [rep].[or]]ders] AS dpone_source
