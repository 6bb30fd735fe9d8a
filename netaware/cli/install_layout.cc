#include "netaware/cli/install_layout.h"

#include <filesystem>
#include <system_error>

namespace tessera {

Result<InstallLayout> InstallLayout::Find() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return Status(StatusCode::kInternal, "the path of this program cannot be read: " + error.message());
  const fs::path bin = program.parent_path();
  InstallLayout layout;
  layout.daemon = (bin / "tesserad").string();
  layout.agent = (bin / "tessera-agent").string();
  layout.gateway = (bin / "tessera-gateway").string();
  layout.lease = (bin / "tessera-lease").string();
  layout.client_dir = (bin.parent_path() / "lib" / "client").string();
  const std::string library = layout.client_dir + "/libcuda.so.1";
  if (!fs::exists(library, error)) {
    return Status(StatusCode::kNotFound, library + " is missing: this installation of Tessera is incomplete, install it again");
  }
  return layout;
}

}  // namespace tessera
