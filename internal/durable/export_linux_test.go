package durable

// Few is few, and Unwritten is unwritten.
const Few = few

var Unwritten = unwritten
