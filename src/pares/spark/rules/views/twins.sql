-- All records of members of whom one had no higher number than those before it.
SELECT /*+ {few_doubtful} */ r.g, r.member, r.base, r.n, r.offset, r.hash FROM {records} r
LEFT SEMI JOIN (SELECT DISTINCT g, member FROM {numbers} WHERE again) d ON d.g <=> r.g AND d.member <=> r.member
