// The npm client, as a panel's code uses it.
export const ctxfsClient = async ({ module, address, token }) => {
  const { connect } = await import(module);
  const fs = await connect({ address, token });
  return {
    stat: (_, name) => fs.stat("/" + name),
    readFile: (_, name) => fs.readFile("/" + name),
    stream: async (name) => (await fs.readFile("/" + name)).length,
    close: () => fs.disconnect(),
  };
};
