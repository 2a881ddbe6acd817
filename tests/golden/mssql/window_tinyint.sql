SELECT [c] FROM [rep].[or]]ders] AS dpone_source WHERE [c] >= CAST(? AS bigint) AND [c] < CAST(? AS bigint)
