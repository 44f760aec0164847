"""What is fuzzed, one module each.  Nothing here knows the fuzzer."""
