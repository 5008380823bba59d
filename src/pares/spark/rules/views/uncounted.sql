-- What did not count.
SELECT /*+ {few_uncounted} */ r.g, r.member, r.base, r.offset, r.cause FROM {records} r
LEFT SEMI JOIN (SELECT * FROM {series} WHERE NOT counted) s ON s.g <=> r.g AND s.member <=> r.member AND s.base <=> r.base
WHERE NOT r.counted
