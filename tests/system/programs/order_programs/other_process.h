// A second process of this program, which opens a block of device memory of the first one's and works in it when asked.
#pragma once

#include <cuda.h>
#include <sys/types.h>

#include <vector>

#include "model.h"
#include "program.h"

namespace order_programs {

// In the first process. Its methods end the process when the second one is gone.
class OtherProcess {
 public:
  // Starts it. Before any CUDA call: it has a driver of its own, from the start.
  OtherProcess();
  // It ends, and has closed what it had open.
  ~OtherProcess();
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  // It opens the block instead of the one it had. What it or the export answered where handles are refused.
  CUresult Open(CUdeviceptr block);
  // The block may be freed.
  CUresult Close();
  // It does these in the block, one behind the other, and its context is synchronised. What each that reads has found.
  CUresult Work(const std::vector<Operation>& steps, std::vector<Bytes>* found);

 private:
  CUresult Answer();

  int socket_ = -1;
  pid_t process_ = -1;
};

// The word by which this program is the second process, and what it does then.
inline constexpr char kOtherProcess[] = "--other-process";
int BeOtherProcess();

}  // namespace order_programs
