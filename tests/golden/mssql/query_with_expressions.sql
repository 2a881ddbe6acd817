WITH a AS (SELECT id FROM dbo.t WHERE v = ?)
SELECT [id] FROM (
SELECT id FROM a WHERE id > ?
) AS dpone_source WHERE [id] >= CAST(? AS bigint)
