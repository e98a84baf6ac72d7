#!/bin/bash
#SBATCH --job-name=reference
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --time=00:30:00

export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))  # another one for each job that shares the node
srun --kill-on-bad-exit=1 bash -c 'torchrun --nnodes "$SLURM_NNODES" --node-rank "$SLURM_NODEID" \
    --nproc-per-node 3 --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" \
    -m reference run batch_parameter_server --model convnet --save run.safetensors'
