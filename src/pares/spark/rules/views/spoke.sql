-- Members that wrote something after they had been declared dead, and may be others.
SELECT DISTINCT d.g, d.other AS member FROM {words} d JOIN {series} s ON s.g = d.g AND s.member = d.other AND s.high > d.offset
WHERE d.cause = 'obituary'
