/* clang-format off */
/* libpaceline: a training loop that survives the loss of any of its ranks.
 *
 * A *job* is a set of ranks (processes) that hold the same replicated state. A *step* is one
 * optimizer update. Every step consists of the same number V of *micro-batches*, however many ranks
 * are alive; the library tells a rank which ones to compute. A *bucket* is a list of gradient
 * tensors that is reduced as one. The loop is pull-shaped, because a repair may hand the
 * micro-batches of a lost rank to the others in the middle of a step:
 *
 *     while (paceline_begin_step(job, &step) == PACELINE_OK) {
 *       do {
 *         while (paceline_next_micro_batch(job, &m) == PACELINE_OK) {
 *           compute the gradient of micro-batch (m.step, m.index), randomness from m.seed alone;
 *           for each bucket b: paceline_accumulate(job, b, gradient_of_b);
 *         }
 *       } while (paceline_finish_step(job) == PACELINE_MORE);
 *       update the parameters from paceline_sum(job, b);  // only here, once per committed step
 *     }
 *
 * Rules that make a fault invisible in the result:
 *  - all state that the next step depends on is registered with paceline_register_state;
 *  - the step number comes from paceline_begin_step, never from a counter of the caller: a rank
 *    that joins a running job receives the registered state of another rank and continues at that
 *    rank's step;
 *  - the gradient of a micro-batch is a function of (registered state, m.seed, m.step, m.index).
 *
 * Threads: calls on one job come from one thread at a time, except paceline_abort and
 * paceline_last_error, which any thread may call. The library runs threads of its own. It
 * installs no signal handlers and starts no process. After a fork only the parent may use the job;
 * the child's copy is inert.
 *
 * Errors: functions return a paceline_status; the text behind an error is paceline_last_error(job).
 * No call blocks for ever: each ends when the job goes on, when the rank is told to leave, or at
 * its deadline.
 *
 * Outside `pace run` (no PACELINE_* environment) a job has this process as its only rank.
 */
/* clang-format on */
#ifndef PACELINE_PACELINE_H_
#define PACELINE_PACELINE_H_

#include <stddef.h>
#include <stdint.h>

#define PACELINE_API __attribute__((visibility("default")))
#define PACELINE_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct paceline_job paceline_job;

typedef enum {
  PACELINE_OK = 0,
  PACELINE_MORE =
      1, /* finish_step: the step needs more micro-batches; call next_micro_batch again */
  PACELINE_NONE = 2, /* next_micro_batch: nothing to compute now; call finish_step */
  PACELINE_LEFT = 3, /* begin_step, finish_step, barrier: this rank is no longer a member, or the
                        job gives the step up; end the loop, then finalize */
  PACELINE_STOP =
      4, /* begin_step: the job stops in order at this step; end the loop, then finalize */
  PACELINE_EINVAL = -1, /* a bad argument, or a call out of order; nothing was changed */
  PACELINE_EAGENT = -2, /* the agent of this host is gone: the process should end */
  PACELINE_EIO = -3,    /* the operating system refused something (memory, sockets) */
  PACELINE_EABORT = -4, /* paceline_abort was called */
  PACELINE_ETIMEOUT = -5
} paceline_status;

typedef enum { PACELINE_F32 = 0, PACELINE_BF16 = 1, PACELINE_F16 = 2 } paceline_dtype;

/* Replicated state is the same on every rank after a commit; any rank can give it to a joiner. */
typedef enum { PACELINE_REPLICATED = 0 } paceline_state_kind;

typedef struct {
  uint64_t
      seed; /* of the job, if the launcher did not say (PACELINE_SEED); the same on all ranks */
  uint32_t micro_batches; /* V if the launcher did not say (--micro-batches); 0 means 1 */
} paceline_options;

typedef struct {
  uint64_t step;          /* number of updates applied so far */
  uint32_t micro_batches; /* V: divide a sum of gradients by it for the mean */
} paceline_step;

typedef struct {
  uint64_t step;
  uint32_t index; /* 0 .. V-1 */
  uint64_t seed;  /* a function of (job seed, step, index) */
} paceline_micro_batch;

/* Joins the job named by the environment. `options` may be NULL. On error *job is NULL and the text
 * is that of paceline_last_error(NULL). At most one job per process under `pace run`. */
PACELINE_API paceline_status paceline_init(const paceline_options* options, paceline_job** job);

/* Leaves the job in order and frees it. Under `pace run`, returns once no other rank can need this
 * one's state. */
PACELINE_API paceline_status paceline_finalize(paceline_job* job);

/* Declares a bucket of `tensor_count` tensors with element_counts[i] elements each, laid out one
 * after the other in the arrays that accumulate takes. Buckets are numbered 0, 1, ... in order of
 * registration, which must be the same on all ranks. Before the first begin_step only. At most 1024
 * buckets. */
PACELINE_API paceline_status paceline_register_bucket(paceline_job* job, const char* name,
                                                      const size_t* element_counts,
                                                      size_t tensor_count, paceline_dtype dtype,
                                                      uint32_t* bucket);

/* Registers `size_bytes` of memory at `data` as state. The memory must stay valid until finalize. A
 * joiner's copy is overwritten in its first begin_step. Between begin_step and finish_step
 * returning OK nobody may change it: other ranks may be taking a copy of it meanwhile. Names are
 * unique. Before the first begin_step only. */
PACELINE_API paceline_status paceline_register_state(paceline_job* job, const char* name,
                                                     void* data, size_t size_bytes,
                                                     paceline_state_kind kind);

/* Starts the next step. The first call joins the running job and may wait for it. Returns OK, STOP,
 * LEFT or an error. */
PACELINE_API paceline_status paceline_begin_step(paceline_job* job, paceline_step* step);

/* The next micro-batch of this rank's share: OK, or NONE when there is nothing to compute now.
 * Never blocks. */
PACELINE_API paceline_status paceline_next_micro_batch(paceline_job* job,
                                                       paceline_micro_batch* micro_batch);

/* Adds the gradient of the micro-batch begun last to bucket `bucket`: one array of the bucket's
 * elements in its dtype. Once per (micro-batch, bucket); every bucket before the next micro-batch
 * or finish_step. `gradient` may be reused when the call returns. */
PACELINE_API paceline_status paceline_accumulate(paceline_job* job, uint32_t bucket,
                                                 const void* gradient);

/* Waits until the step is committed (OK), needs more micro-batches (MORE), or is not to be: the
 * rank has left, or the job ends at the commit before (LEFT). */
PACELINE_API paceline_status paceline_finish_step(paceline_job* job);

/* The sum of the committed step over all V micro-batches, as f32, in the order of the bucket's
 * elements. Valid from finish_step returning OK until the next begin_step; NULL at any other time.
 * The same bits on every rank. An element block to which any micro-batch contributed a NaN or an
 * infinity reads as NaN. */
PACELINE_API const float* paceline_sum(paceline_job* job, uint32_t bucket);

/* Waits until every member has called it as often since the last commit, and returns OK. Between
 * finish_step returning OK and the next begin_step; from the thread that calls those. A member that
 * is lost meanwhile is waited for no longer. A rank that still heals returns OK at once. LEFT: this
 * rank is no longer a member; end the loop, then finalize. EINVAL: out of order; or a member, which
 * paceline_last_error names, has gone on to the next step or to finalize without this barrier: this
 * rank may go on too. A member that stays in its own code is found as a hang and replaced; there is
 * no deadline besides. EABORT and EAGENT as for all calls that wait. */
PACELINE_API paceline_status paceline_barrier(paceline_job* job);

/* Shows a number of this step (a loss) in the live status and the report. One rank's call is
 * enough. */
PACELINE_API paceline_status paceline_log_metric(paceline_job* job, const char* name, double value);

/* Digest of all registered state as it stands; equal on all ranks between a commit's update and the
 * next begin_step. */
PACELINE_API uint64_t paceline_state_digest(paceline_job* job);

/* This rank's slot (0-based, fixed for its life) and the number of live members. */
PACELINE_API uint32_t paceline_rank(paceline_job* job);
PACELINE_API uint32_t paceline_world_size(paceline_job* job);

/* 1 on one working member, 0 on the others: the lowest slot that has micro-batches in the running
 * epoch. For what one rank should say for all. Every rank answers alike between finish_step
 * returning OK and the next begin_step, unless a loss comes in between. */
PACELINE_API int paceline_is_lead(paceline_job* job);

/* Ends every blocked call of this job with EABORT within 100 ms. From any thread. */
PACELINE_API void paceline_abort(paceline_job* job);

/* The text behind the last error of `job` (NULL: of paceline_init in this thread). Valid until the
 * next call. */
PACELINE_API const char* paceline_last_error(paceline_job* job);

#ifdef __cplusplus
}
#endif
#endif /* PACELINE_PACELINE_H_ */
