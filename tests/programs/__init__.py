"""RPC programs as users write them, without this project. `verdicts` has each one's expected verdict under each plan.

| program | processes | what is usual in it |
|---|---|---|
| `parameter_server` | forked, bare; nobody reads their exit codes | a global server and lock, default timeouts |
| `remote_module` | spawned, one ends with the other | RemoteModule, distributed autograd and optimizer |
| `ring` | torchrun | every rank sends to the next; a call that nobody waits for |
| `two_phases` | `mp.start_processes`, forked | two worlds one after the other, a batch server, chained futures |
| `primes` | forked, bare | retries, falls back, survives what it can, and ends with status 0 |
| `word_count` | forked by the master, which is a role itself | threads; checks its result, exits with its own status |
| `restarts` | bare; a launcher starts both again when one dies | goes on from a file, in another world |
| `orders` | spawned by the shop, which is a role itself | logs as JSON, own exceptions, `sys.exit(main())` |

They run from copies in other folders (`test_script_programs.py`), so that they cannot import this project by accident.
"""
