-- From when to when a role (NULL: all of them) was under a pause; until_ms NULL: it still is.
SELECT p.g, p.role, p.offset, p.at_ms AS since_ms, min(r.at_ms) AS until_ms
FROM {words} p
LEFT JOIN {words} r ON r.g = p.g AND r.cause = 'resume' AND r.ref = p.offset AND r.counted AND r.offset > p.offset
WHERE p.cause = 'pause' AND p.counted GROUP BY p.g, p.role, p.offset, p.at_ms
