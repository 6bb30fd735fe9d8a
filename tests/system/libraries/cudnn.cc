// cuDNN: a convolution of ones.
#include <cudnn.h>

#include "library_check.h"

int main() {
  constexpr int n = 1, channels = 4, size = 16;
  cudnnHandle_t handle;
  STEP(cudnnCreate(&handle));
  cudnnTensorDescriptor_t tensor;
  STEP(cudnnCreateTensorDescriptor(&tensor));
  STEP(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, channels, size, size));
  cudnnFilterDescriptor_t filter;
  STEP(cudnnCreateFilterDescriptor(&filter));
  STEP(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, channels, channels, 3, 3));
  cudnnConvolutionDescriptor_t convolution;
  STEP(cudnnCreateConvolutionDescriptor(&convolution));
  STEP(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  cudnnConvolutionFwdAlgoPerf_t found[8];
  int count = 0;
  STEP(cudnnGetConvolutionForwardAlgorithm_v7(handle, tensor, filter, convolution, tensor, 8, &count, found));
  STEP(count > 0 ? 0 : 1);
  const cudnnConvolutionFwdAlgo_t algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  size_t workspace_bytes = 0;
  STEP(cudnnGetConvolutionForwardWorkspaceSize(handle, tensor, filter, convolution, tensor, algorithm, &workspace_bytes));
  void* workspace = nullptr;
  STEP(cudaMalloc(&workspace, workspace_bytes + 256));
  const auto ones = [](size_t) { return 1.0f; };
  float* x = DeviceArray<float>(channels * size * size, ones);
  float* w = DeviceArray<float>(channels * channels * 3 * 3, ones);
  float* y = DeviceArray<float>(channels * size * size, ones);
  const float one = 1, zero = 0;
  const int status = LAUNCH(cudnnConvolutionForward(handle, &one, tensor, x, filter, w, convolution, algorithm, workspace,
                                                    workspace_bytes, &zero, tensor, y));
  STEP(cudnnDestroy(handle));
  return EndAfterLaunch(status, [&] { return Near(HostArray(y, channels * size * size)[size + 1], channels * 9); });
}
