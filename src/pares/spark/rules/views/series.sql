-- Of each series: whether its numbers only rise with the places of its records (`rising`); and whether they go on one by one as well,
-- and nothing counts behind what does not (`even`). Where runs lie one within the other, or a record has no number, neither is known.
SELECT g, member, base, bool_and(up) AS rising, bool_and(up AND coalesce(first = before + 1, true) AND NOT (counted AND coalesce(NOT counting, false)))
         AS even, bool_and(counted) AS counted, sum(many) AS many, max(high) AS high
FROM (SELECT *, first IS NOT NULL AND (reached IS NULL OR coalesce(low > reached AND first > before, false)) AS up FROM {runs})
GROUP BY g, member, base
