package durable

// Few is few.
const Few = few
