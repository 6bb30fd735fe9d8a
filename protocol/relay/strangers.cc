#include "protocol/relay/strangers.h"

#include <netinet/in.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

constexpr size_t kAddressBytes = 16;
constexpr size_t kIpv4Offset = 12;

void CountDown(std::map<Source::Key, size_t>* counts, const Source::Key& key) {
  const auto found = counts->find(key);
  if (found != counts->end() && --found->second == 0) counts->erase(found);
}

}  // namespace

Source::Source(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    address_[10] = address_[11] = 0xff;
    std::memcpy(address_.data() + kIpv4Offset, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    std::memcpy(address_.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, kAddressBytes);
  } else {
    return;
  }
  in6_addr six;
  std::memcpy(&six, address_.data(), kAddressBytes);
  const bool four = IN6_IS_ADDR_V4MAPPED(&six);
  this_host_ = four ? address_[kIpv4Offset] == 127 : IN6_IS_ADDR_LOOPBACK(&six);
  host_bytes_ = four ? kAddressBytes : 64 / 8;
  site_bytes_ = four ? kAddressBytes : 48 / 8;
}

Source Source::Of(int connection) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  return getpeername(connection, reinterpret_cast<sockaddr*>(&address), &length) == 0 ? Source(address) : Source();
}

Source Source::OfUser(uint32_t uid) {
  Source source;
  source.this_host_ = false;
  source.host_bytes_ = source.site_bytes_ = sizeof(uid);
  std::memcpy(source.address_.data(), &uid, sizeof(uid));
  return source;
}

Source::Key Source::KeyOf(size_t bytes) const {
  Key key{};
  if (this_host_) return key;
  key.first = bytes;
  std::copy_n(address_.begin(), bytes, key.second.begin());
  return key;
}

StrangerBounds StrangerBounds::OfThisProcess() {
  StrangerBounds bounds;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) bounds.in_all = std::clamp<rlim_t>(limit.rlim_cur / 8, 1, kAllMax);
  return bounds;
}

std::optional<Strangers::Id> Strangers::Come(Id id, const Source& source) {
  const Source::Key host = source.host(), site = source.site();
  const auto sessions = sessions_.find(host);
  const size_t places = sessions == sessions_.end() ? 0 : sessions->second * kConnectionsOfSession;
  const auto there = expected_.find(host);
  const bool expected = (there == expected_.end() ? 0 : there->second) < places;
  Known known{source, expected ? kExpected : kOther, {}};
  if (expected) ++expected_[host];
  const auto enter = [&](Group& group) {
    std::list<Id>& list = group.of[known.rank];
    return Place{&group, list.insert(list.end(), id)};
  };
  known.places[0] = enter(all_);
  if (!source.IsThisHost()) {
    known.places[1] = enter(hosts_[host]);
    known.places[2] = enter(sites_[site]);
  }
  std::optional<Id> goes;
  for (size_t i : {1, 2, 0}) {
    const std::optional<Place>& place = known.places[i];
    if (goes || !place || place->group->size() <= (i == 0 ? bounds_.in_all : bounds_.per_source)) continue;
    goes = OldestOf(*place->group, id);
  }
  known_.emplace(id, std::move(known));
  if (goes) Leave(*goes);
  return goes;
}

void Strangers::Leave(Id id) {
  const auto found = known_.find(id);
  if (found == known_.end()) return;
  const Known& known = found->second;
  for (const std::optional<Place>& place : known.places) {
    if (place) place->group->of[known.rank].erase(place->at);
  }
  DropEmpty(&hosts_, known.source.host());
  DropEmpty(&sites_, known.source.site());
  if (known.expected()) CountDown(&expected_, known.source.host());
  known_.erase(found);
}

void Strangers::Understood(Id id) {
  const auto found = known_.find(id);
  if (found == known_.end()) return;
  Known& known = found->second;
  if (known.rank == kOtherUnderstood || known.rank == kExpectedUnderstood) return;
  const Rank rank = known.expected() ? kExpectedUnderstood : kOtherUnderstood;
  for (const std::optional<Place>& place : known.places) {
    if (!place) continue;
    std::list<Id>& to = place->group->of[rank];
    to.splice(to.end(), place->group->of[known.rank], place->at);
  }
  known.rank = rank;
}

std::optional<Strangers::Id> Strangers::GiveUpOldest() {
  const std::optional<Id> oldest = OldestOf(all_);
  if (oldest) Leave(*oldest);
  return oldest;
}

void Strangers::SessionEnds(const Source& source) { CountDown(&sessions_, source.host()); }

std::optional<Strangers::Id> Strangers::OldestOf(const Group& group, std::optional<Id> but_for) {
  for (const std::list<Id>& list : group.of) {
    if (!list.empty() && list.front() != but_for) return list.front();
  }
  return std::nullopt;
}

void Strangers::DropEmpty(Groups* groups, const Source::Key& key) {
  const auto found = groups->find(key);
  if (found != groups->end() && found->second.size() == 0) groups->erase(found);
}

}  // namespace tessera
