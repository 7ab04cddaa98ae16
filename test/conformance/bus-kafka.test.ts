/** The bus conformance suite over a real Kafka broker. */
import t from 'tap';
import { kafkaSection } from '../../src/bus/config.js';
import { createKafkaConsumer } from '../../src/bus/kafka-consumer.js';
import { createKafkaPublisher } from '../../src/bus/kafka-publisher.js';
import { kafkaSettings } from '../../src/bus/settings.js';
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
}
