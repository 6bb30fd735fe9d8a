// Where distributions, the container toolkit and WSL put the driver's libraries, for when the dynamic linker does not know it.
#pragma once

namespace tessera {

inline constexpr const char* kDriverDirectories[] = {"/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                                                     "/usr/lib/aarch64-linux-gnu", "/usr/lib/wsl/lib"};

}  // namespace tessera
