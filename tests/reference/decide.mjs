// Asks the reference's own code for its decisions: `node decide.mjs PACKAGE <questions >answers`.
// Its request filter is a function of one module only, so the module is loaded with a line more.
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

const dist = new URL('dist/', pathToFileURL(`${process.argv[2]}/`));
const manager = new URL('sandbox/sandbox-manager.js', dist).href;
const exported =
  '\nexport { filterNetworkRequest as filter };\nexport const use = (settings) => { config = settings; };\n';
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    return url === manager ? { ...loaded, source: loaded.source + exported } : loaded;
  },
});
const { filter, use } = await import(manager);
const { SandboxRuntimeConfigSchema } = await import(new URL('index.js', dist));
const { createResolvedAddressGuard } = await import(
  new URL('sandbox/resolved-address-guard.js', dist)
);

const settings = ({ allowed, denied }) => ({
  network: { allowedDomains: allowed, deniedDomains: denied },
  filesystem: { denyRead: [], allowWrite: [], denyWrite: [] },
});

function accepts(lists) {
  return SandboxRuntimeConfigSchema.safeParse(settings(lists)).success;
}

async function allows(lists) {
  use(settings(lists));
  const answers = [];
  for (const [host, port] of lists.requests) answers.push(await filter(port, host));
  return answers;
}

function admits({ allowed, denied, name, port, address }) {
  const guard = createResolvedAddressGuard({
    allowedDomains: allowed,
    deniedDomains: denied,
    localAddresses: () => [],
  });
  return guard.permits(name, address, port);
}

// The names of all keys, with the sections they stand in; `[]` marks the objects of a list.
function keys(schema, at) {
  const kind = schema._def;
  if (kind.innerType ?? kind.schema) return keys(kind.innerType ?? kind.schema, at);
  if (kind.typeName === 'ZodArray') return keys(kind.type, `${at}[]`);
  if (kind.typeName !== 'ZodObject') return [];
  return Object.entries(schema.shape).flatMap(([name, value]) => {
    const path = at === '' ? name : `${at}.${name}`;
    return [path, ...keys(value, path)];
  });
}

const asked = { accepted: [], allowed: [], admitted: [], ...JSON.parse(readFileSync(0, 'utf8')) };
const answers = {
  accepted: asked.accepted.map(accepts),
  allowed: [],
  admitted: asked.admitted.map(admits),
  keys: keys(SandboxRuntimeConfigSchema, ''),
};
// One after the other: the filter reads its settings from one place.
for (const lists of asked.allowed) answers.allowed.push(await allows(lists));
process.stdout.write(JSON.stringify(answers));
