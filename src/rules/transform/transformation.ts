/**
 * The shape of a transformation: text in, text out; the same string where there was nothing to do. Never
 * throws, linear.
 */
export type Transformation = Readonly<{
  name: string;
  apply(text: string): string;
}>;
