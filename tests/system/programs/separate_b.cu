__device__ int scale = 42;
__device__ int Combine(int a, int b) { return a * 3 + b; }
