"""The client side of the protocol: one engine, and what is built on it.

Nothing here may import the broker: the two halves meet in the protocol.

Where to start: `faces` (how a program calls a client), then `engine` and `asking` (what a client
can ask), then whatever they are made of, from the top:

    faces        Driver: an Engine and the thread it runs on; run_blocking, run_async, close
    engine       its life, what it knows: start, connect, topic, refresh, features, spawn, close
    asking       Asker, the other half of Engine: ask, call, repeat, post, hand, tell, is_ready
    targets      whom to ask: a node id, ANY, CONTROLLER, LeaderOf, group(), transaction()
    router       target -> connection; who is looked for, who is forgotten
    keeper       asks for metadata when it is due, and lets others wait for it
    links, link  one Link for each node and lane; connects, authenticates, tries again
    connection   one connection: correlation ids, order, room, timeouts;  buffers  for its answers
    handshake    ApiVersions and SASL, the first words on it
    retries      deadlines, and doing again what failed
    duty         work that is done whenever there may be something to do
    bell         how threads have something done in a loop of another

Pure machines, tested without a loop: `metadata` and `cluster_view` (topics, leaders, epochs),
`coordinators`, `node_state` (states, back-off, least loaded), `backoff`, `versions`, `sasl`,
`addresses`, `durations`, `metrics`.  Settings: `config`, and `producer.config`, `consumer.config`,
`admin.config` on top of it.

How a client is put together:

    config = ProducerConfig.of(bootstrap_servers, **options)    # names of both kinds; ConfigError
    engine = Engine(config, real_ports(), client_id=next_client_id("producer"),
                    topic_idle_ms=config.metadata_max_idle_ms)
    driver = Driver(engine)                                      # no thread, no socket yet
    driver.run_blocking(engine.connect())                        # `__enter__`
    await driver.run_async(engine.connect())                     # `__aenter__`
    driver.close_blocking(last=sender.flush(), timeout_s=30)     # `close`, `__exit__`

In a simulation: `Engine(config, ports)` and `Driver(engine, SameLoop(engine))`.

What may be relied on:

- An engine belongs to one loop.  Its methods are called there, in coroutines that a `Driver` runs;
  from any thread, only `cluster`, `metadata.touch` and `metrics.snapshot` are safe.
- `ask` sends one request, once.  `call` and `repeat` send again while errors are `retriable`, with
  growing pauses, until their deadline.  A request timeout is a `TransportError`: it may have been
  carried out.  `DeadlineError` is the caller's own deadline, caused by the last trouble.
- Requests on one connection are sent in the order of `post`, or of who came first to `ask`, and are
  answered in that order.  `post` never waits: ask `is_ready` before, and `subscribe` to hear when
  it is worth another look.
- A lost connection, and every RefreshError told to `hear` (`call` and `repeat` do), makes the
  engine refresh metadata and forget coordinators.  Who uses `ask` or `post` tells `hear` himself.
- Coordinators of groups have a connection of their own ("lane"), so heartbeats never wait behind a
  fetch; `lane=` does the same for anything else, such as joins, which a broker holds.
- Records in an answer are views of a buffer that belongs to that answer alone, as long as there is
  a view of it.
- Tasks of a client are started with `Engine.spawn`.  A crash is logged, and closes the client.
- Times inside are integer milliseconds of `Engine.now_ms`, which never jumps; timestamps of records
  come from `ports.clock`.
"""
