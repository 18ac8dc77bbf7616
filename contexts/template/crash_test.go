package template

func child() int { return 0 }

const childEnv = "CTXFS_TEST_CHILD"
