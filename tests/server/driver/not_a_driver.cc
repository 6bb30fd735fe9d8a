// A library without any function of a driver.
extern "C" __attribute__((visibility("default"))) int nothing_of_cuda() { return 1; }
