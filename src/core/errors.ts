/**
 * The one error class and the one table of codes. An exception means that something is broken (a verdict is
 * not an error). Every code has a message with named gaps, and a remedy: what the reader should do. A code is
 * never reused.
 */

type FaultEntry = Readonly<{ message: string; remedy: string }>;

export const FAULTS = {
  CONFIG_UNREADABLE: {
    message: 'cannot read the config file {file}',
    remedy: 'check the path given with --config and its permissions',
  },
  CONFIG_INVALID: {
    message: '{count} problem(s) in {file}:\n{problems}',
    remedy: 'correct the lines named above; `tidegate check --config {file}` tells when it fits',
  },
  RULES_INVALID: {
    message: '{count} problem(s) in the rules:\n{problems}',
    remedy: 'correct the rule files named above; the previous rules stay in force',
  },
  FEED_UNREADABLE: {
    message: 'cannot load {feed} from {from}: {why}',
    remedy: 'check the path or URL; the last good copy stays in force',
  },
  FEED_IMPLAUSIBLE: {
    message: 'refused a new version of {feed} from {from}: {why}',
    remedy: 'look at the source; if the change is right, restart the gate to accept it',
  },
  START_FAILED: {
    message: 'the gate cannot start: {why}',
    remedy: 'correct what is named above and start again',
  },
  LISTEN_FAILED: {
    message: 'cannot listen on {address}: {why}',
    remedy: 'choose another address under `listen`, or stop what holds this one',
  },
  TLS_UNUSABLE: {
    message: 'the TLS listener {address} cannot use {file}: {why}',
    remedy: 'put a PEM certificate chain and its key there; a running gate keeps the pair it has',
  },
  STORE_TIMEOUT: {
    message: 'the counter store did not answer within {ms} ms',
    remedy: 'limits follow `limits.onFailure` until it answers; look at the supervisor or Redis',
  },
  STORE_CLOSED: {
    message: 'the counter store is closed',
    remedy: 'nothing to do while the gate stops; otherwise restart it',
  },
  STORE_FAILED: {
    message: 'the counter store failed: {why}',
    remedy: 'limits follow `limits.onFailure` until it answers; see the cause below',
  },
  STORE_OVERLOADED: {
    message: '{count} checks already wait for the counter store',
    remedy: 'limits follow `limits.onFailure`; give the supervisor or Redis more room',
  },
  STAGE_FAILED: {
    message: 'stage {stage} failed: {why}',
    remedy: 'requests follow `pipeline.onFailure.{stage}` meanwhile; report this with the cause below',
  },
  STAGE_DEADLINE: {
    message: 'stage {stage} took longer than {ms} ms',
    remedy: 'requests follow `pipeline.onFailure.{stage}`; look at the dependency of that stage',
  },
  WORKER_DIED: {
    message: 'worker {id} (pid {pid}) ended with {how}',
    remedy: 'a new one starts after {ms} ms; its requests in flight are lost',
  },
  WORKER_HUNG: {
    message: 'worker {id} (pid {pid}) gave no sign of life for {ms} ms',
    remedy: 'it is killed and replaced; where it was only stopped on purpose, raise `timeouts.worker`',
  },
  RELOAD_REFUSED: {
    message: 'reload refused: {why}',
    remedy: 'correct the config; the running one stays in force',
  },
  ADMIN_TOKEN_MISSING: {
    message: 'the environment variable {env} is not set',
    remedy: 'set it, or remove `admin.tokenEnv`; until then commands that change state are refused',
  },
  ADMIN_EXPOSED: {
    message: 'the admin listener {address} is not on loopback, and the environment variable {env} is not set',
    remedy: 'set it to a long random token, or let `admin.listen` be on 127.0.0.1',
  },
  LOG_WRITE_FAILED: {
    message: 'cannot write the log to {file}: {why}',
    remedy: 'free space or repair the path; events are dropped and counted until then',
  },
  EXPLAIN_INPUT: {
    message: 'cannot read the request to explain: {why}',
    remedy: 'give curl-like flags and a URL, --raw FILE, or --event FILE with a log line',
  },
  POLICY_UNKNOWN: {
    message: 'no policy is named {name}',
    remedy: 'there is {known}',
  },
  ADDRESS_UNREADABLE: {
    message: 'found "{text}", which is no address',
    remedy: 'give an IPv4 or IPv6 address such as 203.0.113.9 or 2001:db8::1',
  },
  BAN_REFUSED: {
    message: 'not banned: {why}',
    remedy: '{remedy}',
  },
  UNBAN_NOTHING: {
    message: 'no ban is in force on {subject}',
    remedy: '{remedy}',
  },
  ADMIN_REFUSED: {
    message: 'the gate says: {why}',
    remedy: '{remedy}',
  },
  ADMIN_UNREACHABLE: {
    message: 'the admin listener at {url} did not answer as expected: {why}',
    remedy: 'is the gate running with this config? `admin.listen` and the token in {env} must be the same',
  },
  REDIS_SETTINGS: {
    message: 'cannot use the redis settings: {why}',
    remedy: 'correct `redis` in the config, its files and its environment variables',
  },
  REDIS_UNREACHABLE: {
    message: 'cannot reach Redis at {address}: {why}',
    remedy: 'check that it runs and `redis` in the config; until then limits follow `limits.onFailure`',
  },
  REDIS_TIMEOUT: {
    message: 'Redis did not answer within {ms} ms',
    remedy:
      'limits follow `limits.onFailure`; look at the load of Redis and the network, or raise `redis.deadline`',
  },
  REDIS_LOADING: {
    message: 'Redis still loads its data',
    remedy: 'limits follow `limits.onFailure` until it has; nothing to do',
  },
  REDIS_BUSY: {
    message: 'Redis is busy with a script that does not end',
    remedy: 'limits follow `limits.onFailure`; find the script (SLOWLOG) and end it with SCRIPT KILL',
  },
  REDIS_OOM: {
    message: 'Redis is full: it refuses to write above its maxmemory',
    remedy: 'limits follow `limits.onFailure`; raise maxmemory, or let keys with a time to live be evicted',
  },
  REDIS_READONLY: {
    message: 'Redis at {address} is a replica that takes no writes',
    remedy: 'limits follow `limits.onFailure`; let `redis` name the master, or use `redis.sentinel`',
  },
  REDIS_NO_WRITES: {
    message: 'Redis at {address} takes no writes now: {why}',
    remedy: 'limits follow `limits.onFailure`; look at its disk (MISCONF) or its replicas (NOREPLICAS)',
  },
  REDIS_AUTH: {
    message: 'Redis at {address} refused us: {why}',
    remedy:
      'check user and password, and that the ACL user may run EVALSHA, SCRIPT and the commands on its keys',
  },
  REDIS_DATABASE: {
    message: 'Redis at {address} does not give us the database: {why}',
    remedy: 'correct the number at the end of `redis.url`; limits follow `limits.onFailure` until then',
  },
  REDIS_CLUSTER: {
    message: 'Redis Cluster cannot serve the key: {why}',
    remedy: 'limits follow `limits.onFailure`; check `redis-cli --cluster check`',
  },
  REDIS_SCRIPT: {
    message: 'Redis could not run the counting script: {why}',
    remedy: 'limits follow `limits.onFailure`; report this with the cause below',
  },
  KAFKA_SETTINGS: {
    message: 'cannot use the kafka settings: {why}',
    remedy: 'correct `kafka` in the config, its files and its environment variables',
  },
  KAFKA_UNREACHABLE: {
    message: 'Kafka at {address} does not take events: {why}',
    remedy:
      'check the brokers and `kafka` in the config; events wait, the least important are dropped and counted',
  },
  KAFKA_UNREAD: {
    message: 'cannot read from Kafka at {address}: {why}',
    remedy: 'check the brokers and `kafka` in the config; reading goes on by itself where it stopped',
  },
  REPLAY_UNREADABLE: {
    message: 'cannot read decisions from {from}: {why}',
    remedy: 'give a log file of the gate (JSON lines, also .gz), or `-` for standard input',
  },
  REPLAY_TOPIC: {
    message: 'there is no `kafka` in the config to read a topic from',
    remedy: "give --config with the gates' config, or a log file (`./topic` where the file has that name)",
  },
  REPLAY_TIME: {
    message: 'found "{text}", which is no time',
    remedy: 'give a time such as 2026-03-01T10:00Z',
  },
  CORRELATE_NEEDS: {
    message: '`tidegate correlate` needs {what} in the config',
    remedy: 'add {what}, or drop `kafka`: without it the correlator runs inside `tidegate serve`',
  },
  STATE_UNREADABLE: {
    message: 'cannot read saved state from {file}: {why}',
    remedy: 'it starts empty; delete the file if this repeats',
  },
  XDP_NOT_CONFIGURED: {
    message: 'the config has no section `xdp`',
    remedy: 'add `xdp: { interface: eth0, mode: driver }`; deploy/config-reference.md has all its keys',
  },
  XDP_NO_BANS: {
    message: 'the bans are kept in the memory of the gate alone',
    remedy: 'set `redis`, or `bans.stateFile` or `reputation.stateDir`, or let `xdp.bans` name a file of bans',
  },
  XDP_LOADER_MISSING: {
    message: 'the kernel loader {file} cannot be run: {why}',
    remedy: 'build it with `make bpf` (needs clang and libbpf), or let `xdp.loader` name it',
  },
  XDP_RIGHTS: {
    message: 'the kernel does not let us {what}: {why}',
    remedy: 'run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON as deploy/systemd/tidegate-xdp.service does',
  },
  XDP_LOADER_FAILED: {
    message: 'the kernel loader could not {what}: {why}',
    remedy: '{remedy}',
  },
  XDP_LOADER_TIMEOUT: {
    message: 'the kernel loader did not {what} within {ms} ms and was ended',
    remedy: 'the filter stays as it was; look at the load of the machine, or raise `xdp.timeout`',
  },
  XDP_LOADER_ANSWER: {
    message: 'cannot read what the kernel loader answered to {what}: {why}',
    remedy: 'loader and agent must be of one version: run `make bpf` and start again',
  },
  XDP_OTHER_MODE: {
    message: 'the filter on {interface} is attached in mode {found}, the config says {wanted}',
    remedy: 'it is never changed silently: run `tidegate xdp off`, then start the companion again',
  },
  XDP_SECOND_AGENT: {
    message: 'there can be one companion on {interface}: {why}',
    remedy: 'stop the other `tidegate xdp` first; the filter stays as it is meanwhile',
  },
  XDP_BANS_UNREADABLE: {
    message: 'cannot read the bans from {from}: {why}',
    remedy: 'the kernel keeps the bans it has until they end; repair the file or the path',
  },
} as const satisfies Record<string, FaultEntry>;

export type FaultCode = keyof typeof FAULTS;

export class Fault extends Error {
  readonly code: FaultCode;
  readonly remedy: string;

  constructor(code: FaultCode, gaps: Readonly<Record<string, string | number>> = {}, cause?: unknown) {
    super(fill(FAULTS[code].message, gaps), cause === undefined ? undefined : { cause });
    this.name = 'Fault';
    this.code = code;
    this.remedy = fill(FAULTS[code].remedy, gaps);
  }
}

/** The fault, its remedy and its causes in lines for a person. */
export function describeFault(error: unknown): string {
  const lines: string[] = [];
  for (let at: unknown = error, depth = 0; at !== undefined && depth < 5; depth++) {
    if (at instanceof Fault) lines.push(`${at.code}: ${at.message}`, `  what to do: ${at.remedy}`);
    else lines.push(`  because: ${at instanceof Error ? at.message : String(at)}`);
    at = at instanceof Error ? at.cause : undefined;
  }
  return lines.join('\n');
}

function fill(text: string, gaps: Readonly<Record<string, string | number>>): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => (name in gaps ? String(gaps[name]) : whole));
}
