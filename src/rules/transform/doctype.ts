/**
 * A document type whose external subset stands behind a public identifier, as the plain one that a parser
 * takes it for. Subsets of the bodies that publish common formats stay as they are: those are ordinary.
 */
import type { Transformation } from './transformation.js';

const PUBLIC =
  /<!doctype(\s{1,20}[\w:.-]{1,80}\s{1,20})public\s{0,20}(?:"[^"]{0,300}"|'[^']{0,300}')\s{0,20}(["'])([^"'<>]{0,300})\2/gi;
const HOSTS = [
  'www.w3.org',
  'www.apple.com',
  'java.sun.com',
  'xmlns.jcp.org',
  'www.oasis-open.org',
  'docbook.org',
  '(?:www.)?hibernate.org',
  'www.springframework.org',
  '(?:struts|jakarta|logging|tomcat|tiles|ant|xml|ibatis).apache.org',
  '(?:www.)?mybatis.org',
  'dtd.nlm.nih.gov',
  'jats.nlm.nih.gov',
  'www.wapforum.org',
  'www.openmobilealliance.org',
  'www.freedesktop.org',
  'www.idpf.org',
  'www.daisy.org',
  'www.topografix.com',
  'checkstyle.(?:org|sourceforge.net)',
  'www.puppycrawl.com',
];
const KNOWN = new RegExp(`^https?://(?:${HOSTS.join('|').replaceAll('.', '\\.')})/[^@\\s]*$`, 'i');
const REMOTE = /^(?:[a-z][a-z0-9+.-]{1,20}:|\/)/i;

export const doctype: Transformation = {
  name: 'doctype',
  apply: (text) =>
    text.includes('<!')
      ? text.replace(PUBLIC, (whole, name: string, _quote: string, from: string) =>
          REMOTE.test(from) && !KNOWN.test(from) ? `<!DOCTYPE${name}SYSTEM "${from}"` : whole,
        )
      : text,
};
