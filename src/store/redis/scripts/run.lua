-- ---- what other stores have, and then the whole ----
local function run()
  local commit, count
  if mode == 'stage' then return stages[take()]() end
  if mode == 'commit' then
    commit, count = take(), take()
    local known = call('GET', commit)
    if known and tonumber(digits_of(known)) >= tonumber(count) then return {'late', {}} end
  end
  if not is_as_seen() then return {'moved', {}} end
  while at < #ARGV do
    local name = take()
    if string.byte(name) == 63 then return asks[string.sub(name, 2)]() end
    writes[name]()
  end
  -- It may have expired since, or Redis had no room for it.
  for _, k in ipairs(kept) do if call('XLEN', k.D .. ':e') ~= k.count then give_up('moved') end end
  store()
  for _, k in ipairs(kept) do
    for _, part in ipairs {':e', ':i'} do call('PERSIST', k.D .. part) end
  end
  if commit then call('SET', commit, count, 'EX', 86400) end
  return {'ok', {}}
end
local ok, answer = pcall(run)
if ok then return answer end
if type(answer) == 'table' then return answer.why and {answer.why, {}} or answer end
return redis.error_reply(answer)
