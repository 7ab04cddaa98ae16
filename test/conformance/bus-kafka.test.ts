/** The bus conformance suite over a real Kafka broker. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { kafkaSection } from '../../src/bus/config.js';
import { createKafkaConsumer } from '../../src/bus/kafka-consumer.js';
import { createKafkaPublisher } from '../../src/bus/kafka-publisher.js';
import { kafkaSettings } from '../../src/bus/settings.js';
import { recordingSink } from '../../src/bus/testing.js';
import { eventFor } from '../../src/telemetry/testing.js';
import { kafkaClient, kafkaMissing, useKafka } from '../support/kafka.js';
import { busConformance, type TestBus } from './bus.js';

if (kafkaMissing) {
  t.pass('the conformance suite over Kafka', { skip: kafkaMissing });
} else {
  const kafka = await useKafka();
  t.teardown(() => kafka.stop());
  const run = `${process.pid}-${Date.now()}`;
  let topics = 0;
  await busConformance(t, 'kafka', async (): Promise<TestBus> => {
    const topic = `bus-${run}-${++topics}`;
    const section = { brokers: kafka.brokers, topic, group: topic, partitions: 4, linger: '5ms' };
    const config = kafkaSection.parse(section)!;
    const settings = kafkaSettings(config, { baseDir: '/' });
    const log = process.env['TIDEGATE_TEST_LOG'] ? console.error : () => undefined;
    const producer = kafkaClient(kafka.brokers).producer();
    return {
      publisher: () => createKafkaPublisher(settings, log),
      consumer: () => createKafkaConsumer(settings, { log, loop: { settleEveryMs: 50 } }),
      async raw(text) {
        await kafka.admin.connect();
        const configEntries = [{ name: 'max.message.bytes', value: '4000000' }];
        await kafka.admin.createTopics({ topics: [{ topic, numPartitions: 4, configEntries }] });
        await producer.connect();
        await producer.send({ topic, messages: [{ key: 'stranger', value: text }] });
      },
      close: () => producer.disconnect(),
    };
  });

  await t.test('a gate whose clock runs ahead harms itself alone, however late it is read', async (test) => {
    const topic = `clock-${run}`;
    const section = { brokers: kafka.brokers, topic, group: topic, partitions: 1, linger: '5ms' };
    const settings = kafkaSettings(kafkaSection.parse(section)!, { baseDir: '/' });
    const publisher = createKafkaPublisher(settings, () => undefined);
    const nowMs = Date.now();
    for (const [requestId, aheadMs] of [['good', 0], ['fast', 60_000], ['after', 1]] as const)
      publisher.publish(eventFor({ requestId, time: new Date(nowMs + aheadMs).toISOString() }));
    const sink = recordingSink();
    // Read an hour later: the clock of the reader would let it through.
    const deps = { log: () => undefined, nowMs: () => nowMs + 3_600_000, loop: { settleEveryMs: 50 } };
    const consumer = createKafkaConsumer(settings, deps);
    await consumer.start(sink);
    for (let tries = 0; tries < 600 && consumer.stats().taken < 3; tries++) await sleep(50);
    test.same(sink.ids(), ['good', 'after']);
    test.equal(consumer.stats().rejected.future, 1);
    await consumer.close(2_000);
    await publisher.close(2_000);
  });
}
