// Lets libcuda.so.1 load where glibc is 2.34: the unwinder that is linked into it asks for _dl_find_object, which came
// with 2.35. The same answer from dl_iterate_phdr(3), which every glibc has. Slower, for the rare exception; the name
// is hidden, so nobody else gets this one.
#include <link.h>

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)

namespace {

// As <dlfcn.h> of glibc 2.35 declares it (struct dl_find_object); here, so that older headers do as well.
struct FoundObject {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  link_map* map;
  void* eh_frame;
  unsigned long long reserved[7];
};

struct Search {
  uintptr_t address;
  FoundObject* found;
  bool done;
};

int Look(dl_phdr_info* info, size_t, void* argument) {
  auto* search = static_cast<Search*>(argument);
  uintptr_t start = UINTPTR_MAX, end = 0, eh_frame = 0;
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) eh_frame = begin;
    if (header.p_type != PT_LOAD) continue;
    if (begin < start) start = begin;
    if (begin + header.p_memsz > end) end = begin + header.p_memsz;
    inside |= search->address >= begin && search->address < begin + header.p_memsz;
  }
  if (!inside) return 0;
  search->done = true;
  *search->found = FoundObject{0,       reinterpret_cast<void*>(start),    reinterpret_cast<void*>(end),
                               nullptr, reinterpret_cast<void*>(eh_frame), {}};
  return 1;
}

}  // namespace

// 0, or -1 when the address belongs to no object or the object has no unwind table.
extern "C" __attribute__((visibility("hidden"))) int FindObject(void* address, FoundObject* found) __asm__("_dl_find_object");
int FindObject(void* address, FoundObject* found) {
  Search search{reinterpret_cast<uintptr_t>(address), found, false};
  dl_iterate_phdr(&Look, &search);
  return search.done && found->eh_frame != nullptr ? 0 : -1;
}

#endif
