// It allows functions without a body.
