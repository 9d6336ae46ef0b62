-- A store behind a slow link: what is asked of it goes in one round trip, and a lost answer
-- changes nothing.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local slow_store = require "spec.support.slow_store"

local function trips(action, ...)
  local before = slow_store.roundTrips()
  action(...)
  return slow_store.roundTrips() - before
end

describe("a slow store", function()
  local service, session
  before_each(function()
    service = slow_store.open "slow:1:memory:"
    session = checks.create(service, "s", { n = 1, list = {} })
  end)
  after_each(function()
    service:close()
  end)

  it("is asked once for each call", function()
    local other = checks.get(service)
    assert.equal(1, trips(service.appendEvent, service, session, { author = "user", content = { parts = {} } }))
    session.state:increment("n", 2)
    session.state:append("list", "x")
    session.state["user:seen"] = true
    assert.equal(1, trips(service.updateSession, service, session))
    other.state:increment("n", 4) -- behind by two events
    other.state:append("list", "y")
    assert.equal(1, trips(service.updateSession, service, other))
    assert.same({ n = 7, list = { "x", "y" }, ["user:seen"] = true }, moonpad.toTable(other.state))
    assert.equal(1, trips(service.refresh, service, session))
    assert.same({ n = 7, list = { "x", "y" }, ["user:seen"] = true }, moonpad.toTable(session.state))
    assert.equal(1, trips(checks.get, service))
    assert.equal(1, trips(service.listSessions, service, { appName = "app" }))
  end)

  it("is asked once more where a conflict is to be told", function()
    local other = checks.get(service)
    session.state.n = 5
    service:updateSession(session)
    other.state.n = other.state.n + 1
    local raised
    assert.equal(2, trips(function()
      raised = checks.raises("conflict", nil, service.updateSession, service, other)
    end))
    assert.same({ "n" }, raised.keys)
  end)

  it("stores once what was sent again", function()
    session.state:increment("n", 1)
    session.state["temp:t"] = 1
    slow_store.loseAnswers(1)
    local event = service:updateSession(session)
    slow_store.loseAnswers(0)
    assert.equal(1, event.revision)
    assert.same({ n = 2 }, moonpad.toTable(event.actions.stateDelta))
    assert.same({ n = 2, list = {}, ["temp:t"] = 1 }, moonpad.toTable(session.state))
    assert.equal(2, checks.get(service).state.n)
  end)
end)

describe("the URL of a slow store", function()
  it("is refused where it is not one", function()
    for _, url in ipairs { "slow:", "slow:x:memory:", "slow:-1:memory:", "slow:99999999:memory:", "slow:1:" } do
      local ok, message = pcall(slow_store.open, url)
      assert.is_false(ok)
      assert.matches("slow:MILLISECONDS:", message, nil, true)
    end
  end)
end)
