// What the simulated cluster is made of: sizes, times and delays.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace paceline::sim {

struct Model {
  uint32_t hosts = 4;
  uint32_t spare_hosts = 0;
  bool has_cold_spares = false;  // else hot ones
  uint32_t ranks_per_host = 1;
  uint32_t micro_batches = 16;
  uint32_t buckets = 2;
  uint64_t steps = 100;
  uint64_t seed = 1;
  bool skips_poison = false;

  Duration micro_batch = Duration::milliseconds(5);  // compute, on a healthy rank
  uint32_t jitter_ppm = 50'000;                      // of it, uniform
  uint32_t long_step_ppm = 0;                        // of turns on which someone takes
  int64_t long_step_factor = 20;                     //   so many times as long, unannounced
  Duration update = Duration::milliseconds(1);       // the optimizer, between commit and begin_step
  Duration link_delay = Duration::microseconds(100);  // rank to rank
  Duration link_jitter;    // the most that comes on top, at times; zero: always the same
  Duration reduce_spread;  // between two members' ends of a reduction
  Duration local_delay = Duration::microseconds(50);     // rank to agent
  Duration control_delay = Duration::microseconds(300);  // agent to controller
  Duration start_time = Duration::milliseconds(400);     // of a process, to its hello
  Duration reap_time = Duration::milliseconds(5);        // from the death bell to the exit status
  uint64_t state_bytes = 64'000'000;
  Duration heal_time = Duration::milliseconds(80);       // to move the registered state
  Duration window = Duration::milliseconds(50);          // between reports of an agent
  Duration quiet_window = Duration::milliseconds(200);   // the same while all goes as usual
  Duration peer_silence = Duration::milliseconds(300);   // until a rank misses a peer
  Duration connect_limit = Duration::seconds(2);         // until a rank gives a connection up
  Duration silence_limit = Duration::milliseconds(500);  // until the controller misses an agent
  Duration restart_controller = Duration::milliseconds(200);
};

}  // namespace paceline::sim
