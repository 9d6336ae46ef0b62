-- The number of an app: what it has, or the next one.
local known = redis.call('ZSCORE', KEYS[1], ARGV[1])
if known then return {'ok', known} end
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local number = tonumber(last[2] or 0) + 1
if number > tonumber(ARGV[2]) then return {'full'} end
redis.call('ZADD', KEYS[1], number, ARGV[1])
return {'ok', string.format('%.0f', number)}
