// Transport: the connections between this rank and its peers, and the listener that they come to.
//
// One outgoing connection per peer and channel, made when it is asked for; peers' connections are
// accepted as they come.
//
// A quiesce ends the connections of the step channel that have something to send: nothing of an
// older epoch leaves any more, and no buffer is borrowed. The others stay, since to make them again
// would cost the repaired step more than its reduction; what arrives on them of an older epoch is
// dropped by its number. Which of them are of use is known when the next epoch is entered.
//
// Beats go out on every open connection; a peer that has a connection to this rank and is not heard
// for kSilenceLimit is reported, and reported again when it is heard. How late this observer's own
// timer fired is not held against anybody.
//
// Not thread-safe: under the job's mutex.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/model/epoch.h"
#include "live/os/descriptor.h"
#include "live/worker/frame.h"
#include "live/worker/incoming.h"
#include "live/worker/outgoing.h"
#include "live/worker/poller.h"

namespace paceline::worker {

inline constexpr Duration kBeatInterval = Duration::milliseconds(50);
inline constexpr Duration kSilenceLimit = Duration::milliseconds(300);
inline constexpr Duration kStrangerDeadline = Duration::seconds(5);
inline constexpr size_t kMaxStrangers = 64;  // connections without an Open; more are closed at once

class PeerHandler {
 public:
  virtual ~PeerHandler() = default;
  virtual FrameVerdict take(RankId sender, const FrameHeader& header,
                            std::span<const std::byte> payload) = 0;
  // A connection to or from the peer has ended, or could not be made. May be told repeatedly.
  virtual void connection_lost(RankId peer) = 0;
  virtual void silent(RankId peer) = 0;
  virtual void heard_again(RankId peer) = 0;
  // A connection of a transfer has ended.
  virtual void heal_lost(RankId peer) = 0;
};

class Transport {
 public:
  struct Options {
    RankId self;
    uint64_t token = 0;
    uint32_t address = 0;  // to listen on; host byte order; 0: loopback
  };
  // Listens on a port that the kernel chooses. `poller` and `handler` must outlive the object.
  static Result<std::unique_ptr<Transport>> listen(const Options& options, Poller& poller,
                                                   PeerHandler& handler);
  Endpoint endpoint() const { return endpoint_; }

  // Opens a connection to the peer unless there is one.
  void connect(RankId peer, Endpoint endpoint, Channel channel, Instant now);
  // Queues a frame; flush() sends what is queued, small frames together. The connection is there.
  void send(RankId peer, const FrameHeader& header, std::span<const std::byte> head,
            std::span<const std::byte> body, std::shared_ptr<const void> keep = nullptr);
  // Bytes of the transfer to the peer that wait here and nowhere else.
  size_t waiting_heal_bytes(RankId peer) const;
  // Closes this rank's connection of the transfer to the peer.
  void end_heal(RankId peer);
  // The same, and those that have come from it: what is still under way is of no more use.
  void end_heal_both(RankId peer);
  void flush();

  // False: the event belongs to somebody else.
  bool handle(const Poller::Event& event, Instant now);
  // Retries, beats and deadlines; `epoch` marks the beats. Call it at next_tick() or earlier.
  void tick(EpochNumber epoch, Instant now);
  Instant next_tick() const;
  // Offers the frames that were kept again.
  void resume_paused();
  // Ends what is to be sent on the step channel.
  void quiesce();
  // A new epoch, after a quiesce. The step channel keeps the good connections with its members.
  void enter(EpochNumber epoch, const std::set<RankId>& members);

 private:
  Transport(const Options& options, Poller& poller, PeerHandler& handler, os::Descriptor listener,
            Endpoint endpoint);

  struct Peer {
    std::unique_ptr<Outgoing> connection;
    bool is_dirty = false;    // has frames that were queued since the last flush
    bool has_failed = false;  // and the handler has been told
  };

  void accept_all(Instant now);
  void report(RankId id, Channel channel, Peer& peer);
  void tell_lost(RankId id, Channel channel);
  bool handle_outgoing(const Poller::Event& event, Instant now);
  bool handle_incoming(const Poller::Event& event, Instant now);
  void end_incoming(size_t index);
  void beat(EpochNumber epoch);
  void judge_silence(Instant now);
  size_t strangers() const;
  Incoming::Take taker();

  Options options_;
  Poller& poller_;
  PeerHandler& handler_;
  os::Descriptor listener_;
  Poller::Key listener_key_;
  Endpoint endpoint_;
  using PeerKey = std::pair<RankId, Channel>;
  std::map<PeerKey, Peer> peers_;
  std::vector<std::unique_ptr<Incoming>> incoming_;
  std::set<RankId> silent_;
  EpochNumber entered_;  // after a quiesce
  Instant next_beat_;
};

}  // namespace paceline::worker
