---@meta moonpad.core
-- The types of the C module, for editors. Nothing here is run. What users see of it is re-exported
-- by `moonpad`.

---@alias moonpad.Value
---| string
---| number
---| boolean
---| lightuserdata `moonpad.null`
---| table an array 1..n, or a table with string keys
---| moonpad.Node copied
---| moonpad.State copied

---@alias moonpad.ErrorCode
---| "invalid_argument"
---| "not_found"
---| "already_exists"
---| "conflict" somebody else changed a key since it was looked at
---| "template"
---| "model"
---| "tool"
---| "limit"
---| "busy" a lock was not had in time
---| "closed"
---| "cancelled"
---| "storage" disk full, I/O error, read-only
---| "corrupt"
---| "no_memory"
---| "unsupported"

---What every failing call raises. `tostring(err)` reads "CODE: MESSAGE (at FILE:LINE)".
---@class moonpad.Error
---@field code moonpad.ErrorCode
---@field message string
---@field keys? string[] of a conflict: the keys
---@field event? table of a conflict: the event that was not stored
---@field provider? string of a model's server: "openai", "gemini", "anthropic"
---@field model? string of a model's server
---@field status? integer of a model's server: the HTTP status
---@field body? string of a model's server: what it has answered, at most 4 KiB
---@field kind? string of HTTP: how it failed, "connect", "resolve", "tls", ...
---@field cause? any in tests: the error behind it
---@field where? string the line that made the call, "app.lua:12"

-- ---- State ----

---A state: session, `user:`, `app:` and `temp:` keys in one map. Read and write keys by
---index; the methods below win over keys of the same name (`state:get("get")` reads such
---a key, `state:set("get", v)` writes it). Values are copied in and out; tables read
---back as `moonpad.Node`.
---@class moonpad.State: userdata
---@field [string] any
local State = {}

---The value of a key, or `default` when there is none. A stored `moonpad.null` is a value.
---@param key string
---@param default? any
---@return any
function State:get(key, default) end

---Sets a key; nil deletes it.
---@param key string
---@param value moonpad.Value?
function State:set(key, value) end

---Is there a value? A stored `moonpad.null` is one.
---@param key string
---@return boolean
function State:has(key) end

---Deletes a key.
---@param key string
---@return boolean existed
function State:delete(key) end

---Sets several keys; all are validated before any is written. `moonpad.removed` deletes, so that a
---`delta()` can be given back.
---@param values table<string, moonpad.Value>
function State:update(values) end

---Writes `value` when the key is absent, and returns what `state[key]` reads then: for a table
---its node.
---@param key string
---@param value moonpad.Value?
---@return any
function State:setDefault(key, value) end

---A plain deep copy of the merged map.
---@return table<string, any>
---@nodiscard
function State:getAll() end

---The same as `getAll`.
---@return table<string, any>
---@nodiscard
function State:toTable() end

---Is anything pending?
---@return boolean
---@nodiscard
function State:hasDelta() end

---A copy of what is pending; a deletion is `moonpad.removed`.
---@return table<string, any>
---@nodiscard
function State:delta() end

---Adds at commit, under the store's lock, to the value stored then: parallel writers lose no
---update. A missing key counts from 0.
---@param key string
---@param by? number default 1
function State:increment(key, by) end

---Appends an item at commit, under the store's lock. A missing key, or an empty object, counts as
---an empty array.
---@param key string
---@param item moonpad.Value
function State:append(key, item) end

---An array or object inside a state: reads and writes like a table (`#`, `pairs`, `ipairs`,
---`table.insert`, `table.sort`...). The same node is the same object. `tostring` gives its JSON,
---`moonpad.toTable` a plain copy. `next`, `rawget` and lua-cjson cannot see into it.
---@class moonpad.Node: userdata
---@field [string|integer] any
---@operator len: integer

-- ---- Sessions ----

---A snapshot of a session: it changes by its own appends and by `service:refresh` only.
---@class moonpad.Session: userdata
---@field id string
---@field appName string
---@field userId string
---@field state moonpad.State writes are pending until `service:updateSession(session)`
---@field events moonpad.Events
---@field lastUpdateTime number seconds since 1970: the timestamp of the last event
---@field createTime number seconds since 1970
---@field revision integer the number of events that it has had
---@field conversationCount integer user messages so far
---@field saveKey string "appName/userId"
local Session = {}

---The text of the newest summary that a `moonpad.summarizer` has made of it, as far as the object
---knows the session. One that a rewind has taken back does not count.
---@return string?
function Session:summary() end

---The events that a session object shows, oldest first; fetched when they are read. Every access
---gives a table of its own.
---@class moonpad.Events: userdata
---@field [integer] moonpad.Event
---@operator len: integer

-- ---- Service ----

---A clock that stands still until it is told otherwise: `moonpad.testing.clock`.
---@class moonpad.Clock: userdata
local Clock = {}

---@return number seconds since 1970
---@nodiscard
function Clock:now() end

---@param seconds number since 1970
function Clock:set(seconds) end

---@param seconds number
function Clock:advance(seconds) end

---@class moonpad.Config
---@field durability? "full"|"normal" what an acknowledged append survives: power loss (default), a crash
---@field busyTimeoutMs? integer how long to wait for a lock (5000)
---@field onConflict? "error"|"overwrite"
---@field numRecentEvents? integer default of getSession
---@field maxValueBytes? integer of one value (16 MiB), 0 for none
---@field maxEventBytes? integer of one event (64 MiB), 0 for none
---@field maxStateBytes? integer of one session's state (256 MiB), 0 for none
---@field historyCacheBytes? integer of decoded events that runs keep for later ones (64 MiB), 0 to keep none
---@field clock? moonpad.Clock|fun(): number what time sessions and events get, in seconds since 1970
---@field sessionTtlSeconds? number how long a session lives without being used; 0, the default: for ever
---@field userTtlSeconds? number the same of a user's state
---@field appTtlSeconds? number the same of an app's state
---@field sweepIntervalSeconds? number how often what has expired is freed by itself; 0, the default: never
---@field maxEvents? integer what an append leaves of a session's events, in whole turns; 0, the default: all
---@field eventTtlSeconds? number the same by the age of a turn's last event; 0, the default: for ever
---@field maxSessionsPerUser? integer 0, the default: no limit
---@field onMaxSessions? "refuse"|"deleteOldest" default "refuse": error `limit`

---@class moonpad.SessionName
---@field appName string
---@field userId string
---@field sessionId string

---@class moonpad.CreateOptions
---@field appName string
---@field userId string
---@field sessionId? string missing or blank: a UUIDv4
---@field state? table<string, moonpad.Value>

---@class moonpad.GetOptions: moonpad.SessionName
---@field numRecentEvents? integer only the last n; 0: none
---@field afterTimestamp? number only events at or after it

---@class moonpad.ListOptions
---@field appName string
---@field userId? string
---@field limit? integer
---@field after? string the cursor of the page before
---@field order? "oldest"|"newest"

---@class moonpad.AppendOptions
---@field session moonpad.Session
---@field event moonpad.Event|table

---@class moonpad.ImportOptions
---@field lines string|string[]|fun(): string? with or without newlines
---@field appName? string in place of the exported one
---@field userId? string
---@field sessionId? string

---A store of sessions. Closes when it is collected, by `close()`, or with `local service <close>`.
---@class moonpad.Service: userdata
local Service = {}

---Closes the store for everybody who shares it. Closing twice is no error.
function Service:close() end

---@param options moonpad.CreateOptions
---@return moonpad.Session
function Service:createSession(options) end

---@param options moonpad.GetOptions
---@return moonpad.Session? session nil when there is none
---@nodiscard
function Service:getSession(options) end

---Sessions with their merged state and without events.
---@param options moonpad.ListOptions
---@return moonpad.Session[] sessions
---@return string? cursor for `after`, when there is more
---@nodiscard
function Service:listSessions(options) end

---User and app state stay.
---@param options moonpad.SessionName
---@return boolean existed
function Service:deleteSession(options) end

---Forgets a user: all its sessions and its user state, in one transaction. Artifacts and memories
---have calls of their own.
---@param options { appName: string, userId: string }
---@return integer sessions how many it had
function Service:deleteUser(options) end

---Appends an event, the one way in which state changes, and returns it as stored. A partial event
---is returned unchanged.
---@param session moonpad.Session
---@param event moonpad.Event|table
---@return moonpad.Event
---@overload fun(self: moonpad.Service, options: moonpad.AppendOptions): moonpad.Event
function Service:appendEvent(session, event) end

---Appends what is pending on `session.state` as one event, by "system" unless `event` names an
---author. The fields, content and own delta of `event` go along. A key that is pending and in that
---delta too, or a partial event, is refused. On failure the writes stay pending.
---@param session moonpad.Session
---@param event moonpad.Event|table?
---@return moonpad.Event? event nil when nothing was pending and no event was given
function Service:updateSession(session, event) end

---An asynchronous append: what `appendEventAsync` and `updateSessionAsync` return. Dropping it
---cancels nothing.
---@class moonpad.PendingAppend: userdata
local PendingAppend = {}

---The stored event, or it raises why the append failed; the same each time.
---@return moonpad.Event? event nil until a poll has found it done
function PendingAppend:result() end

---What `context:await` asks: completes the append, and those before it on its session object, if
---it is done. Raises why it failed.
---@return boolean done
---@return moonpad.Event? event
function PendingAppend:poll() end

---As `appendEvent`, without waiting: the session object shows the event's delta at once, its
---revision when a poll has found the append done. The appends of a session object are stored in
---order; a synchronous call on it waits for them. If one fails, those behind it fail too. Only
---what needs no store is an error here; so is a partial event.
---@param session moonpad.Session
---@param event moonpad.Event|table
---@return moonpad.PendingAppend
---@overload fun(self: moonpad.Service, options: moonpad.AppendOptions): moonpad.PendingAppend
function Service:appendEventAsync(session, event) end

---As `updateSession`, in the same way. What it carries is pending no longer, whatever becomes of
---it; what is written from now on is.
---@param session moonpad.Session
---@param event moonpad.Event|table?
---@return moonpad.PendingAppend? pending nil when nothing was pending and no event was given
function Service:updateSessionAsync(session, event) end

---Completes what this Lua state has begun on the service and is done. After `close` too. What
---became of each append, its `result` says: a poll does not raise it.
---@param seconds? number how long at most to wait for the first, as long as any is under way; default: not at all
---@return integer count
---@return integer failed how many of them
function Service:poll(seconds) end

---A file descriptor that is readable as long as a poll, or a run whose last step was "waiting",
---has something to do. What waits for something that is not moonpad's to know (a request of
---moonpad.http, a tool or model of your own that yields) is to be stepped at your own pace. It is
---moonpad's: wait for it, neither read nor close it.
---@return integer fd good until the service object is collected
function Service:fd() end

---Brings the session object up to what is stored; pending writes stay pending.
---@param session moonpad.Session
---@return moonpad.Session session the same
function Service:refresh(session) end

---@param options { appName: string }
---@return table<string, any> state keys without prefix
---@nodiscard
function Service:getAppState(options) end

---@param options { appName: string, userId: string }
---@return table<string, any> state keys without prefix
---@nodiscard
function Service:getUserState(options) end

---Merges into the app's state; `moonpad.removed` deletes a key. Keys without prefix.
---@param options { appName: string, state: table<string, moonpad.Value> }
function Service:updateAppState(options) end

---Merges into the user's state; `moonpad.removed` deletes a key. Keys without prefix.
---@param options { appName: string, userId: string, state: table<string, moonpad.Value> }
function Service:updateUserState(options) end

---Adds to a key of the user (without userId: of the app) at once.
---@param options { appName: string, userId?: string, key: string, by?: number }
---@return number committed
function Service:incrementState(options) end

---Session-scope state after that revision; 0 is the initial state.
---@param session moonpad.Session
---@param revision integer
---@return table<string, any>
---@nodiscard
function Service:stateAt(session, revision) end

---A new session with the events up to that revision and the state after them.
---@param session moonpad.Session
---@param options { at: integer, sessionId?: string }
---@return moonpad.Session
function Service:fork(session, options) end

---Appends one event that restores session-scope state to before that invocation, or to after
---that revision (0: as it was created). Exactly one of the two is given. What is not there
---raises `not_found`.
---@param session moonpad.Session
---@param options { invocationId: string }|{ revision: integer }
---@return moonpad.Event
function Service:rewind(session, options) end

---The whole stored session as lines of text, a header and then the events, each with its newline:
---whatever part the object shows, without what is pending, without user and app state. Nothing is
---locked between two lines; what is appended meanwhile is no part of it. Once the service is
---closed the iterator raises `closed`, once the session is deleted `not_found`.
---@param session moonpad.Session
---@return fun(): string? nextLine nil behind the last one
---@nodiscard
function Service:export(session) end

---Creates the session that the lines of an export describe, under other names where they are
---given. All or nothing: a wrong line raises `invalid_argument` and is named, an error of an
---iterator comes through as it is, and a session that exists raises `already_exists`. User and app
---state are not touched.
---@param options moonpad.ImportOptions
---@return moonpad.Session
function Service:import(options) end

---A consistent copy in a new file while others write. A store that has none raises `unsupported`.
---@param path string
---@return true
function Service:backup(path) end

---What a sweep has freed.
---@class moonpad.Swept
---@field sessions integer
---@field users integer whose state it was
---@field apps integer whose state it was
---@field events integer of sessions that live on

---Frees what has expired by the times to live of this service, in small transactions: others can
---write in between. `sweepIntervalSeconds` does it by itself.
---@return moonpad.Swept
function Service:sweep() end

-- ---- The module ----

---@class moonpad.core
---@field null lightuserdata JSON null; the very same value as `cjson.null`
---@field removed lightuserdata in a delta: this key is deleted
---@field json moonpad.Json
---@field StatePrefix { APP_PREFIX: "app:", USER_PREFIX: "user:", TEMP_PREFIX: "temp:" }
---@field eventMethods table the `__index` of all events
---@field base64Mark table the metatable of inlineData whose bytes stand in base64
---@field maxCopyTables integer so many tables a copy may hold, each counted wherever it stands
---@field _VERSION string
local core = {}

---The exact codec: 64-bit integers and doubles come back as they were, empty arrays stay arrays,
---proxies are accepted.
---@class moonpad.Json
local Json = {}

---Compact JSON, object keys sorted by bytes. What cannot be encoded is an error with the path to
---it; more than 256 MiB is `invalid_argument`.
---@param value moonpad.Value
---@return string
---@nodiscard
function Json.encode(value) end

---Strict: one value, no duplicate keys. An error names the byte. null becomes `moonpad.null`.
---@param text string
---@return any
---@nodiscard
function Json.decode(text) end

---Opens a store that is built in: "memory:", "sqlite:PATH", "sqlite::memory:".
---@param url string
---@param config? moonpad.Config
---@return moonpad.Service
---@nodiscard
function core.open(url, config) end

---The same on a store that is not built in.
---@param opener userdata what the store's module hands over
---@param url string
---@param config? moonpad.Config
---@return moonpad.Service
---@nodiscard
function core.openOn(opener, url, config) end

---The config of a service that another module opens, for that module.
---@class moonpad.StoreConfig: userdata

---Checks the URL and the config of a service that another module opens.
---@param where string for messages
---@param url any
---@param config any
---@param timeToLive string the name of that field
---@return moonpad.StoreConfig
function core.checkStore(where, url, config, timeToLive) end

---Opens a service in memory with the hooks and limits of the service that a session belongs to.
---@param session moonpad.Session
---@return moonpad.Service
---@nodiscard
function core.openScratch(session) end

---Marks a table as an array, so that it stays one when it is empty, and returns it.
---@param table? table
---@return table
function core.array(table) end

---A state object that belongs to no session.
---@param values? table<string, moonpad.Value>
---@return moonpad.State
---@nodiscard
function core.state(values) end

---A deep copy in which proxies have become tables. What is no table and no proxy is returned as
---it is.
---@param value any
---@return any
---@nodiscard
function core.toTable(value) end

---A deep copy of an event table, with methods. Near misses of field names (`state_delta`) raise.
---@param event table
---@param session? moonpad.Session whose service says how large an event may be
---@return moonpad.Event
---@nodiscard
function core.newEvent(event, session) end

---Is it base64 as it is mostly written: the usual alphabet and its padding, without ends of lines?
---@param text string
---@return boolean
---@nodiscard
function core.isBase64(text) end

---As `json.encode`, for what is to be part of an event: raises `limit` where that is far too large
---for one.
---@param value moonpad.Value
---@param limit? moonpad.Session|integer whose service says how large an event may be, or bytes
---@return string
---@nodiscard
function core.encodeWithin(value, limit) end

---Raises an error object.
---@param code moonpad.ErrorCode
---@param message string
---@param extra? table further fields
function core.error(code, message, extra) end

---Makes an error object.
---@param code moonpad.ErrorCode
---@param message string
---@param extra? table further fields
---@return moonpad.Error
---@nodiscard
function core.newError(code, message, extra) end

---@param value any
---@return boolean
---@nodiscard
function core.isError(value) end

---Raises invalid_argument for the first field that is not known: "WHERE: FIELD: unknown field, did
---you mean KNOWN?"
---@param table table
---@param where string
---@param known string[]
function core.checkFields(table, where, known) end

---The known name that was probably meant.
---@param name string
---@param known string[]
---@return string?
---@nodiscard
function core.nearestName(name, known) end

---Where moonpad's own Lua files are: the place that an error names is the nearest one outside.
---@param folder string with the separator at its end
function core.setFolder(folder) end

---A state object over a change set of its own: reads see the session object and its own writes.
---With a branch ("team.writer") those of the branches beside it are other writers to it, wherever
---it has read.
---@param session moonpad.Session
---@param branch string?
---@return moonpad.State
---@nodiscard
function core.beginChanges(session, branch) end

---A state object that reads the same and refuses writes, at any depth.
---@param state moonpad.State
---@return moonpad.State
---@nodiscard
function core.readOnly(state) end

---The state of a tool call over that of its answer. It takes writes in transactions only.
---@param answer moonpad.State
---@return moonpad.State
---@nodiscard
function core.beginCallChanges(answer) end

---From now on the call sees what is committed to the answer now, and its own writes; of what
---others store it sees what was stored when its first transaction began.
---@param call moonpad.State
function core.beginTransaction(call) end

---What was written since then is pending in the answer. Raises `conflict` (with `keys`) where
---another call has committed the same place of a key that this one has read and written; then the
---transaction is still under way.
---@param call moonpad.State
function core.commitTransaction(call) end

---Drops what was written since then.
---@param call moonpad.State
function core.rollbackTransaction(call) end

---All that a state shows, as a plain table; no key counts as read.
---@param state moonpad.State
---@return table<string, moonpad.Value>
---@nodiscard
function core.snapshot(state) end

---What was written and read in a state since it was made or committed, `temp:` keys left out.
---@param state moonpad.State
---@return userdata writes
---@nodiscard
function core.writes(state) end

---Does it over again, with what was read counting as read here.
---@param state moonpad.State of the session that the other one's began as a copy of
---@param writes userdata of a session of a service that `core.openScratch` made
function core.addWrites(state, writes) end

---A last-writer-wins write: it never conflicts.
---@param state moonpad.State
---@param key string
---@param value moonpad.Value?
function core.putLastWriterWins(state, key, value) end

---Appends the event with the pending writes in its stateDelta. On failure they stay pending. A
---partial event is returned unchanged.
---@param state moonpad.State
---@param event table
---@return moonpad.Event stored
function core.commit(state, event) end

---The coroutines that moonpad drives (weak keys): calls that ask a store may yield in them.
---@type table<thread, any>
core.threads = {}

---What a coroutine yields while a store is asked for it. It is to be resumed until it yields
---something else.
---@type lightuserdata
core.ASKS_STORE = nil

---Given to coroutine.resume in place of an answer: the call that waits for a store
---raises `cancelled`.
---@type lightuserdata
core.CANCEL = nil

---Says who steps the coroutines that moonpad drives: calls that ask a store are tasks of this
---service, and yield core.ASKS_STORE until they are done. nil: they are made at once.
---@param service moonpad.Service?
---@return moonpad.Service? previous
function core.stepWith(service) end

---What tells that a step of a run has something to do, where nothing under way tells it.
---@class moonpad.Due: userdata

---@return moonpad.Due
---@nodiscard
function core.newDue() end

---Tells it by `service:fd()`, or takes it back. It raises nothing: where there is no memory for
---that, or the service was closed before anything was begun on it, nothing is told.
---@param due moonpad.Due
---@param service moonpad.Service? the run's own; nil: there is nothing to do
function core.setDue(due, service) end

---While a run waits for a pending append, which may be found done by somebody else: `service:fd()`
---is readable from then on, until the answer is closed.
---@param job any nil is the answer for whatever is no pending append, or is done
---@return userdata? wait to be closed
---@nodiscard
function core.awaitAppend(job) end

---Is no append of a session object under way any more? What is done is applied. Only where nobody
---waits for them himself: their runs are over.
---@param session moonpad.Session
---@param isAwaited boolean somebody waits for that: `service:fd()` is to be readable then
---@return boolean
function core.isDrained(session, isAwaited) end

---Ends a context: drops what is pending, its nodes become stale, writes raise invalid_argument
---with the reason; reading goes on.
---@param state moonpad.State
---@param reason string
function core.endChanges(state, reason) end

---@class moonpad.RenderOptions
---@field syntax? "both"|"braces"|"angles"
---@field agentName? string named in errors
---@field artifacts? table<string, string> texts by file name

---Renders an instruction template; nil: it asks for an artifact, and `artifacts` was not given.
---@param template string
---@param state moonpad.State
---@param options? moonpad.RenderOptions
---@return string?
---@nodiscard
function core.render(template, state, options) end

---The files that a template's `artifact.FILE` placeholders ask for, in order of appearance,
---repeats included.
---@param template string
---@param syntax? "both"|"braces"|"angles"
---@return string[]
---@nodiscard
function core.templateArtifacts(template, syntax) end

---A random UUID.
---@param from? moonpad.Session|moonpad.Service whose source of random bytes is asked; default: the system's
---@return string
---@nodiscard
function core.uuid4(from) end

---A UUID in order of time.
---@param from? moonpad.Session|moonpad.Service whose clock and source of random bytes are asked; default: the system's
---@return string
---@nodiscard
function core.uuid7(from) end

---A clock that stands still until it is told otherwise.
---@param seconds number? since 1970; default: now
---@return moonpad.Clock
---@nodiscard
function core.clock(seconds) end

---Seconds since 1970 by the service's clock.
---@param from moonpad.Session|moonpad.Service
---@return number
---@nodiscard
function core.now(from) end

---Seconds of a clock that never goes back.
---@return number
---@nodiscard
function core.monotonic() end

---What runs keep of a stored event: revision, author, branch, longRunningToolIds, role and parts of
---its content, and of its actions where it rewinds to and whom it hands over to. Nil where the
---session object does not show it.
---@param session moonpad.Session
---@param revision integer
---@return table?
---@return integer bytes of the event's text
---@return boolean hasNull is there a null in what is kept?
function core.readEvent(session, revision) end

---Which session it is, and where what the object shows of its history begins.
---@param session moonpad.Session that was read without `afterTimestamp`
---@return integer id of its creation, unique in the service
---@return integer first the revision of the first event
---@return integer timesLost how often the store has been found to have lost events of a session
---@nodiscard
function core.historyOf(session) end

---Where an invocation begins.
---@param session moonpad.Session
---@param invocationId string
---@return integer? revision of its first event that is stored
---@nodiscard
function core.findInvocation(session, invocationId) end

---The names of the apps in a store, in any order. A store that cannot tell raises `unsupported`.
---@param service moonpad.Service
---@return string[]
---@nodiscard
function core.listApps(service) end

---The same of the users of an app, those without a session, too.
---@param service moonpad.Service
---@param appName string
---@return string[]
---@nodiscard
function core.listUsers(service, appName) end

---The service object that a session belongs to.
---@param session moonpad.Session
---@param where? string for messages
---@return moonpad.Service
function core.serviceOf(session, where) end

---Leaves no byte of what was deleted on disk, where the store can do that.
---@param service moonpad.Service
function core.vacuum(service) end

---Tells the host's log hook of a failure that no call reports.
---@param session moonpad.Session
---@param code moonpad.ErrorCode
---@param message string
function core.log(session, code, message) end

---Makes a function that finds words in a text, however a server may have escaped them: the first
---one that begins between two places. It returns where that is, and where the text goes on behind
---it; no second result where the text, which is not whole, ends in what may become one; or nothing.
---@param words string[] where several begin at one place, the first counts
---@return fun(text: string, first: integer, last: integer, isWhole: boolean): integer?, integer?
---@nodiscard
function core.secretFinder(words) end

---The methods of session objects that are written in Lua.
---@type table<string, function>
core.sessionMethods = {}

---A table that lives as long as the service object, for decoded events.
---@param service moonpad.Service
---@return table cache `limit` is historyCacheBytes of the config; the rest is the caller's
---@nodiscard
function core.historyCache(service) end

---For modules in C: light userdata.
---@type lightuserdata
core.storeCalls = nil

---As `core.sleep`, but ends when something is done that this Lua state has begun and does not know
---of yet.
---@param seconds number
function core.idle(seconds) end

---`io.open` of a path in UTF-8, which on Windows is not what Lua's own takes.
---@param path string
---@param mode string? as of `io.open`
---@return file*? file
---@return string? message
---@return integer? number
function core.openFile(path, mode) end

---`os.getenv`, in UTF-8 on Windows as well.
---@param name string
---@return string?
function core.environment(name) end

---Lets the thread sleep; a signal ends it early.
---@param seconds number
function core.sleep(seconds) end

return core
