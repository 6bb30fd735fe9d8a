// Empty: CMake wants a file in the target that precompiles headers for others.
