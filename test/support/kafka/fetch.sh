#!/usr/bin/env bash
# Brings the jars of a Kafka broker for tests into .kafka/libs, once. Says why where it cannot; the tests that
# need a broker are skipped then.
set -uo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
target="$(cd "$here/../../.." && pwd)/.kafka"
without="the tests that need a Kafka broker are skipped"

[ -n "${KAFKA_BROKERS:-}" ] && exit 0
if ! command -v java >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing a Java runtime and Maven for the Kafka broker"
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    default-jre-headless maven) >/dev/null 2>&1
fi
if ! command -v java >/dev/null 2>&1; then
  echo "no Java runtime; $without"
  exit 0
fi
[ -f "$target/complete" ] && exit 0
if ! command -v mvn >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends maven) \
    >/dev/null 2>&1
fi
if ! command -v mvn >/dev/null 2>&1; then
  echo "no Maven to bring the Kafka broker; $without"
  exit 0
fi
rm -rf "$target/libs" && mkdir -p "$target"
echo "bringing the Kafka broker for tests"
if timeout 300 mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies \
  -DoutputDirectory="$target/libs" >"$target/fetch.log" 2>&1 && [ -n "$(ls "$target/libs" 2>/dev/null)" ]; then
  touch "$target/complete"
else
  echo "the Kafka broker could not be brought (see .kafka/fetch.log); $without"
fi
exit 0
