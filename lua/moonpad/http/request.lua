--- One request from the first attempt to the last byte. Until the answer begins it may be tried
--- again; never after.
local core = require "moonpad.core"
local driver = require "moonpad.http.client"
local errorAnswer = require "moonpad.http.error_answer"
local errorText = require "moonpad.util.error_text"
local redirect = require "moonpad.http.redirect"
local retry = require "moonpad.http.retry"
local coroutines = require "moonpad.runtime.coroutines"

local jobs = {}

---@class moonpad.HttpJob
---@field status integer? of the answer, once it has begun
---@field headers table<string, string>? of the answer, names in lower case
---@field attempts integer made so far
---@field maxBodyBytes integer of what is put together
---@field retryAt number? when the next attempt begins (core.monotonic)
---@field retryReason string? what the last attempt has failed of, without anything secret
---@field package errorAnswer moonpad.HttpErrorAnswer? after which there may be another attempt
---@field failure { message: string, kind: string }?
---@field isOver boolean? nothing more will come
---@field package deadline number? (core.monotonic)
local Job = { __name = "moonpad.http.job" }
Job.__index = Job

-- job -> what is to be sent. Apart from the job, because it holds keys: who prints a job must not
-- see them.
local plans = setmetatable({}, { __mode = "k" })

---- Attempts

local function release(job)
  local request = job.request
  job.request = nil
  if request then request:close() end
end

local function finish(job)
  if job.isOver then return end
  job.isOver, job.retryAt = true, nil
  release(job)
  driver.dismiss(job)
  plans[job] = nil
end

local function fail(job, message, kind)
  if job.attempts > 1 then message = ("%s (after %d attempts)"):format(message, job.attempts) end
  job.failure = { message = message, kind = kind }
  finish(job)
end

local function secondsLeft(job)
  return job.deadline and job.deadline - core.monotonic() or math.huge
end

local function mayTryAgain(job)
  return job.attempts < plans[job].attempts
end

local function headerLines(plan)
  -- Without it libcurl asks before it sends a large body, and waits for an answer that many servers
  -- never give.
  local lines = { "Expect:" }
  for name, value in pairs(plan.headers) do
    lines[#lines + 1] = value == "" and name .. ";" or name .. ": " .. value
  end
  return lines
end

local function start(job)
  local plan, left = plans[job], secondsLeft(job)
  job.retryAt = nil
  local request, message, kind = driver.start {
    url = plan.url, method = plan.method, headers = headerLines(plan), body = plan.body, caFile = plan.caFile,
    timeoutMs = left < math.huge and math.max(1, math.ceil(left * 1000)) or 0,
    connectTimeoutMs = plan.connectTimeoutMs, idleTimeoutMs = plan.idleTimeoutMs, maxUnreadBytes = plan.maxUnreadBytes,
    sendOnce = plan.sendOnce,
  }
  if not request then return fail(job, message, kind) end
  job.request = request
end

-- Plans another attempt, when there may be one. `delay`: what the server asks for.
local function tryAgain(job, reason, delay)
  local plan = plans[job]
  if not mayTryAgain(job) then return false end
  if delay and delay * 1000 > plan.maxRetryDelayMs then return false end
  delay = delay or retry.backoff(plan, job.attempts)
  if delay >= secondsLeft(job) then return false end
  release(job)
  job.attempts = job.attempts + 1
  job.retryAt, job.retryReason = core.monotonic() + delay, reason
  return true
end

-- Where it leads to is known when it has come to its end; what it says on the way interests nobody.
local function follow(job, status)
  local problem = redirect.follow(plans[job], status, job.request:redirect())
  release(job)
  if problem then return fail(job, problem, "redirect") end
  start(job)
end

---- Going on

local function begin(job, status, headers, chunk)
  job.status, job.headers, job.chunk = status, headers, chunk
end

-- After an error that is worth another attempt: that, or the answer begins.
local function decide(job)
  local answer, ask = job.errorAnswer, plans[job].retryAdvice
  if ask and not answer:read(job.request) then return false end
  local advice, problem
  if ask then advice, problem = answer:advice(ask) end
  job.errorAnswer = nil
  if problem then
    fail(job, problem, "advice")
    return true
  end
  local delay = advice or retry.after(answer.headers, job.request:retryAfter())
  if advice == false or not tryAgain(job, "HTTP " .. answer.status, delay) then
    begin(job, answer.status, answer.headers, answer:body())
  end
  return true
end

-- The answer begins with its first byte, or with its end: as long as the owner has seen nothing, it
-- may be tried again.
local function takeAnswer(job)
  if job.errorAnswer then return decide(job) end
  local request = job.request
  local isDone = request:done()
  local status = request:status()
  local headers = status and request:headers()
  if status and mayTryAgain(job) and retry.isWorthAnswer(status, headers) then
    job.errorAnswer = errorAnswer.new(status, headers)
    return decide(job)
  end
  local message, kind = request:failure()
  if message then
    if not (retry.isWorthKind(kind) and tryAgain(job, message)) then fail(job, message, kind) end
    return true
  end
  if not status then return false end
  if redirect.isRedirect(status) then
    request:read()
    if isDone then follow(job, status) end
    return isDone
  end
  local chunk = request:read()
  if not chunk and not isDone then return false end
  begin(job, status, headers, chunk)
  return true
end

---Looks what has become of the request.
---@return boolean moved
function Job:advance()
  if self.isOver or self.status then return false end
  if self.retryAt then
    if core.monotonic() < self.retryAt then return false end
    start(self)
    return true
  end
  return takeAnswer(self)
end

local function checkSelf(self, method)
  if getmetatable(self) == Job then return end
  core.error("invalid_argument", ("job:%s(...): call it with a colon, not with a dot"):format(method))
end

---Looks what has become of the request, without waiting.
---@return boolean moved whether something has happened since the last time
function Job:step()
  checkSelf(self, "step")
  if self.isOver then return false end
  local activity, before = driver.activity(), self.seen
  self.seen = activity
  return self:advance() or activity ~= before
end

---Has something come that nobody has taken yet?
---@return boolean
function Job:isReady()
  if self.isOver or self.chunk then return true end
  return self.status ~= nil and self.request:isReady()
end

---Inside a coroutine to wait is to yield; elsewhere nobody could come back, so it sleeps.
function Job:giveWay()
  if coroutines.canYield() then
    coroutines.wait(self.retryAt, self)
  elseif coroutine.isyieldable() then
    coroutine.yield()
  else
    driver.poll(1)
  end
end

-- One step; and between two of them, others get their turn. So a fast sender cannot hold up
-- a frame.
local function stepInTurn(job)
  if job.hasStepped then job:giveWay() end
  job.hasStepped = true
  return job:step()
end

---Waits until the answer begins.
---@return integer? status nil when there will be none
---@return string? message
---@return string? kind of the failure
function Job:wait()
  checkSelf(self, "wait")
  coroutines.checkThread "job:wait"
  while not self.status and not self.isOver do stepInTurn(self) end
  if self.status then return self.status end
  local failure = self.failure or { message = "the request has been closed", kind = "closed" }
  return nil, failure.message, failure.kind
end

---What has come in, without waiting.
---@return string? chunk
function Job:read()
  checkSelf(self, "read")
  if not self.status or self.isOver then return nil end
  local chunk = self.chunk
  self.chunk = nil
  -- In this order: the last bytes may come in between.
  local isDone = self.request:done()
  chunk = chunk or self.request:read()
  if chunk or not isDone then return chunk end
  local message, kind = self.request:failure()
  if message then
    fail(self, message, kind)
  else
    finish(self)
  end
  return nil
end

---Waits for the next piece of the body.
---@return string? chunk nil at the end
---@return string? message why it ended too early
---@return string? kind of the failure
function Job:receive()
  checkSelf(self, "receive")
  coroutines.checkThread "job:receive"
  local status, message, kind = self:wait()
  if not status then return nil, message, kind end
  while true do
    local chunk = self:read()
    if chunk then return chunk end
    if self.isOver then break end
    stepInTurn(self)
  end
  if self.failure then return nil, self.failure.message, self.failure.kind end
  return nil
end

local function tooLong(job)
  return ("the answer is longer than %d bytes"):format(job.maxBodyBytes)
end

---Waits for the whole body.
---@param limit integer? of so many bytes; then it is cut. Without one, more than `maxBodyBytes` are a failure
---@return string? body
---@return boolean|string cut whether there was more; or why there is none
---@return string? kind of the failure
function Job:collect(limit)
  checkSelf(self, "collect")
  coroutines.checkThread "job:collect"
  if limit ~= nil and math.type(limit) ~= "integer" then
    core.error("invalid_argument", "job:collect(limit): expected an integer, got " .. errorText.show(limit))
  end
  local parts, length, most = {}, 0, limit or self.maxBodyBytes
  while true do
    local chunk, message, kind = self:receive()
    if message then return nil, message, kind end
    if not chunk then return table.concat(parts), false end
    parts[#parts + 1], length = chunk, length + #chunk
    if length > most then
      self:close()
      if not limit then return nil, tooLong(self), "limit" end
      return table.concat(parts):sub(1, limit), true
    end
  end
end

---For `context:await(job)`: goes on without waiting, and tells whether everything is there.
---@return boolean done
---@return { status: integer, headers: table<string, string>, body: string }? answer
function Job:poll()
  checkSelf(self, "poll")
  self:step()
  self.parts = self.parts or { length = 0 }
  local parts, chunk = self.parts, self:read()
  while chunk do
    parts[#parts + 1], parts.length = chunk, parts.length + #chunk
    if parts.length > self.maxBodyBytes then
      self:close()
      core.error("limit", tooLong(self))
    end
    chunk = self:read()
  end
  if not self.isOver then return false end
  if self.failure then core.error("tool", "HTTP: " .. self.failure.message, { kind = self.failure.kind }) end
  if not self.status then core.error("closed", "HTTP: the request has been closed") end
  return true, { status = self.status, headers = self.headers, body = table.concat(parts) }
end

---Nothing more of it is wanted. What may still come does no harm, and the connection can serve
---again after it.
function Job:release()
  checkSelf(self, "release")
  local request = self.request
  if self.status and request then
    self.request = nil
    driver.drain(request)
  end
  finish(self)
end

---Breaks it off. What has not been read is lost.
function Job:close()
  checkSelf(self, "close")
  finish(self)
end

Job.__close = Job.close

---@param plan table see moonpad.http
---@return moonpad.HttpJob
function jobs.new(plan)
  local job = setmetatable({ attempts = 1, seen = driver.activity(), maxBodyBytes = plan.maxBodyBytes }, Job)
  plans[job] = plan
  if plan.timeoutMs > 0 then job.deadline = core.monotonic() + plan.timeoutMs / 1000 end
  start(job)
  if not job.isOver then driver.enlist(job) end
  return job
end

return jobs
