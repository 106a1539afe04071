// Between the plain values of core/model and the messages of proto/paceline.proto.
//
// to_proto and from_proto are inverse to each other on every value within the bounds of core/model.
// from_proto trusts nothing: what is out of its bounds, has an unknown enumerator or no kind is an
// error of code Corrupt, and costs no more memory than the message itself.
#pragma once

#include "base/result.h"
#include "core/model/host_message.h"
#include "core/model/incident.h"
#include "core/model/job.h"

namespace paceline::proto {
class HostCommand;
class HostEvent;
class JobEvent;
class JobSpec;
}  // namespace paceline::proto

namespace paceline::rpc {

proto::HostEvent to_proto(const HostEvent& event);
Result<HostEvent> from_proto(const proto::HostEvent& message);

proto::HostCommand to_proto(const HostCommand& command);
Result<HostCommand> from_proto(const proto::HostCommand& message);

proto::JobEvent to_proto(const JobEvent& event);
Result<JobEvent> from_proto(const proto::JobEvent& message);

proto::JobSpec to_proto(const JobSpec& spec);
Result<JobSpec> from_proto(const proto::JobSpec& message);

}  // namespace paceline::rpc
