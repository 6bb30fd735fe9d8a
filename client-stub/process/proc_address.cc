#include "client-stub/process/proc_address.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "generated/client/proc_address_table.h"

namespace tessera {

ProcAddressAnswer FindProcAddress(const char* name, int version, cuuint64_t flags, int version_max) {
  constexpr cuuint64_t kFlags = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  ProcAddressAnswer answer;
  if (name == nullptr || (flags & ~kFlags) != 0 || version > version_max) {
    answer.result = CUDA_ERROR_INVALID_VALUE;
    return answer;
  }
  if (version < 0) version = version_max;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const std::span<const ProcAddress> table = ProcAddresses();
  const auto before = [](const ProcAddress& row, std::string_view wanted) { return row.name < wanted; };
  const auto first = std::lower_bound(table.begin(), table.end(), std::string_view(name), before);
  const auto last = std::find_if(first, table.end(), [&](const ProcAddress& row) { return std::strcmp(row.name, name) != 0; });
  const bool own_stream =
      per_thread && std::any_of(first, last, [](const ProcAddress& row) { return row.per_thread != nullptr; });
  for (auto row = first; row != last; ++row) {
    if (own_stream && row->per_thread == nullptr) continue;
    if ((own_stream ? row->per_thread_since : row->since) <= version) {
      answer.function = own_stream ? row->per_thread : row->function;
      answer.status = CU_GET_PROC_ADDRESS_SUCCESS;
    } else if (answer.function == nullptr) {
      answer.status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    }
  }
  return answer;
}

}  // namespace tessera
