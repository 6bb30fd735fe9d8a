#include "client-stub/call/describe_function.h"

#include "client-stub/code/function_questions.h"

namespace tessera {

FunctionInfo* DescribeFunction(Call& call, CUfunction function) {
  const HandleId id(reinterpret_cast<uint64_t>(function));
  if (id.kind() == HandleKind::kKernel) return DescribeKernel(call, reinterpret_cast<CUkernel>(function));
  const HandleId live = call.Use(HandleKind::kFunction, function);
  if (!call.ok()) return nullptr;
  FunctionInfo* const known = Functions().FindDescribed(live);
  return known != nullptr ? known : AskFunction(call, live);
}

FunctionInfo* DescribeKernel(Call& call, CUkernel kernel) {
  const HandleId live = call.Use(HandleKind::kKernel, kernel);
  if (!call.ok()) return nullptr;
  FunctionInfo* const known = Functions().FindDescribed(live);
  return known != nullptr ? known : AskKernel(call, live);
}

}  // namespace tessera
