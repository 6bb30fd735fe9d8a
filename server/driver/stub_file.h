// Tells Tessera's client library, which is called libcuda.so.1 like the driver it stands for, from a driver. The client
// library exports nothing but CUDA's names, so the mark is an ELF note (System V ABI, "Note Section"), written by
// protocol/runtime/stub_note.cc.
#pragma once

#include <string>

namespace tessera {

// Whether the file at `path` is an ELF library with the note. False also for a file that cannot be read. Any thread.
bool IsStubFile(const std::string& path);

}  // namespace tessera
