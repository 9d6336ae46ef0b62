-- Was this commit carried out? If not, it never will be: its number is taken.
local known = redis.call('GET', KEYS[1])
if known == ARGV[1] then
  -- A write, behind which the replicas that WAIT counts have it.
  redis.call('EXPIRE', KEYS[1], 86400)
  return {'done'}
end
redis.call('SET', KEYS[1], ARGV[1] .. ' given up', 'EX', 86400)
return {'given up'}
