// How a server leaves the sight of the program that started it.
#pragma once

namespace tessera {

// Goes on in a child process, without stdin and stdout. The process that was started exits with 0, which tells its parent that
// the server is ready. Call it before the first thread. False, with errno: nothing has changed.
bool GoToBackground();

// From now on stderr is /dev/null, so that whoever reads the owner's stderr until its end does not wait for us.
void LeaveStderr();

}  // namespace tessera
