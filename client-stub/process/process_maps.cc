#include "client-stub/process/process_maps.h"

#include <sys/sysmacros.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace tessera {
namespace {

struct FileCloser {
  void operator()(FILE* file) const { std::fclose(file); }
};

bool Parse(const char* text, MapLine* line) {
  char mode[5] = {};
  unsigned major = 0, minor = 0;
  int path = 0;
  unsigned long begin = 0, end = 0, offset = 0, inode = 0;
  if (std::sscanf(text, "%lx-%lx %4s %lx %x:%x %lu %n", &begin, &end, mode, &offset, &major, &minor, &inode, &path) < 7) {
    return false;
  }
  line->begin = begin;
  line->end = end;
  line->offset = offset;
  line->inode = inode;
  line->device = makedev(major, minor);
  line->shared = mode[3] == 's';
  line->readable = mode[0] == 'r';
  line->writable = mode[1] == 'w';
  line->path = text + path;
  while (!line->path.empty() && line->path.back() == '\n') line->path.pop_back();
  return true;
}

}  // namespace

bool ForEachMapping(const std::function<bool(const MapLine& line)>& visit) {
  const std::unique_ptr<FILE, FileCloser> maps(std::fopen("/proc/self/maps", "re"));
  if (maps == nullptr) return false;
  char* text = nullptr;
  size_t capacity = 0;
  while (getline(&text, &capacity, maps.get()) > 0) {
    MapLine line;
    if (Parse(text, &line) && !visit(line)) break;
  }
  std::free(text);
  return true;
}

bool IsAccessible(const Range& range, bool writes) {
  uint64_t known = range.base;  // all before this is
  ForEachMapping([&](const MapLine& line) {
    if (line.end <= known) return true;
    if (line.begin > known || !line.readable || (writes && !line.writable)) return false;
    known = line.end;
    return known < range.end();
  });
  return known >= range.end();
}

}  // namespace tessera
