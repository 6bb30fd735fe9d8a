// Messages between two processes of a test program, over a socket of packets, with a descriptor (unix(7), SCM_RIGHTS). Whatever
// fails ends the program.
#pragma once

#include <sys/socket.h>

#include <cstring>

#include "check.h"

// A message of `size` bytes, and a descriptor with it unless `fd` is -1.
inline void SendFd(int socket, const void* bytes, size_t size, int fd) {
  iovec part{const_cast<void*>(bytes), size};
  char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  EXPECT_EQ(sendmsg(socket, &message, 0), static_cast<ssize_t>(size));
}

// Receives such a message. The descriptor that came with it, which is the caller's; -1: none did.
inline int ReceiveFd(int socket, void* bytes, size_t size) {
  iovec part{bytes, size};
  char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  EXPECT_EQ(recvmsg(socket, &message, 0), static_cast<ssize_t>(size));
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  int fd = -1;
  if (header != nullptr) std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return fd;
}
