// tessera-admin carries out `tessera vgpu`, `get` and `grants`. It lies beside tessera and is the only one of the two with gRPC.
#pragma once

namespace tessera {

// Becomes that program, with the words of `argv` behind the first. Returns kExitMissingLibrary with a sentence on stderr when it
// cannot.
int BecomeAdminProgram(char** argv);

}  // namespace tessera
