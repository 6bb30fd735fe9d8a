// How a server that another program started for itself leaves that program's sight.
#pragma once

namespace tessera {

// Goes on as a child of nobody, without stdin and stdout; the process that was started exits with 0, which tells whoever
// started it that all is ready. Before the first thread. False, with errno, when it stays what it is.
bool GoToBackground();

// From now on nothing is written to stderr: whoever waits for the end of what the owner wrote does not have to wait for us.
void LeaveStderr();

}  // namespace tessera
