// Lets libcuda.so.1 load where glibc is 2.34, whichever glibc it was built with. The names are hidden, so nobody else gets them.
//
// The unwinder that is linked into it asks for _dl_find_object, which came with 2.35. The same answer comes from
// dl_iterate_phdr(3), which every glibc has. It is slower, for the rare exception.
//
// Headers since 2.38 make strtol and its like calls of __isoc23_strtol and so on, which also read numbers such as 0b11.
// Here these names are the functions of before.
#include <link.h>

#include <cstdarg>
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

// By their names in glibc, since the headers may rename them.
extern "C" {
long Strtol(const char* text, char** end, int base) __asm__("strtol");
unsigned long Strtoul(const char* text, char** end, int base) __asm__("strtoul");
unsigned long long Strtoull(const char* text, char** end, int base) __asm__("strtoull");
int Vsscanf(const char* text, const char* format, va_list out) __asm__("__isoc99_vsscanf");
}

}  // namespace

#define TESSERA_HIDDEN extern "C" __attribute__((visibility("hidden")))

TESSERA_HIDDEN long StrtolOf23(const char* text, char** end, int base) __asm__("__isoc23_strtol");
long StrtolOf23(const char* text, char** end, int base) { return Strtol(text, end, base); }

TESSERA_HIDDEN unsigned long StrtoulOf23(const char* text, char** end, int base) __asm__("__isoc23_strtoul");
unsigned long StrtoulOf23(const char* text, char** end, int base) { return Strtoul(text, end, base); }

TESSERA_HIDDEN unsigned long long StrtoullOf23(const char* text, char** end, int base) __asm__("__isoc23_strtoull");
unsigned long long StrtoullOf23(const char* text, char** end, int base) { return Strtoull(text, end, base); }

TESSERA_HIDDEN int SscanfOf23(const char* text, const char* format, ...) __asm__("__isoc23_sscanf");
int SscanfOf23(const char* text, const char* format, ...) {
  va_list out;
  va_start(out, format);
  const int count = Vsscanf(text, format, out);
  va_end(out);
  return count;
}

// 0, or -1 when the address belongs to no object or the object has no unwind table.
TESSERA_HIDDEN int FindObject(void* address, FoundObject* found) __asm__("_dl_find_object");
int FindObject(void* address, FoundObject* found) {
  Search search{reinterpret_cast<uintptr_t>(address), found, false};
  dl_iterate_phdr(&Look, &search);
  return search.done && found->eh_frame != nullptr ? 0 : -1;
}

#endif
